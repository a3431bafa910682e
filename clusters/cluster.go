package clusters

import (
	"log/slog"
	"slices"
	"time"

	"tributary/model"
)

// cluster is one member, owned by the goroutine of the Manager.
type cluster struct {
	claim  claim // as wanted now, or last if it is leaving
	life   life
	added  time.Time
	runs   []*run // not ended yet, by ascending epoch
	base   uint64 // epochs up to here are not of this cluster
	newest uint64 // highest epoch started; base if none

	complete model.Synced // of the newest epoch that the core has whole; Epoch 0 if none
	took     time.Duration

	lastError string // of the newest epoch; "" once it is well
	timedOut  bool
	queued    bool               // its new credential waits for its turn
	frozen    model.SourceHealth // what the last source observed; while none runs
	pulse     pulse              // when it was heard last
	told      told               // what the log knows

	drain       *drain          // nil unless it is on its way out
	drainBegins time.Time       // when the first step is, or was, due
	share       uint8           // of its endpoints, in percent, as the core was told; 0 for all
	said        <-chan struct{} // closed when the core has the last that the manager said; nil if nothing
	leaving     bool            // its rows are being taken back
}

// freeze ends all sources and keeps what the one in force has observed.
func (c *cluster) freeze() {
	if len(c.runs) > 0 {
		// One that follows no epoch in force says nothing of what is known.
		if serving, complete := c.serving(); complete || c.complete.Epoch == 0 {
			c.frozen, _ = serving.health()
		}
	}
	for _, r := range c.runs {
		r.end()
	}
}

// saying reports whether the core has yet to take what the manager said last.
func (c *cluster) saying() bool {
	if c.said == nil {
		return false
	}
	select {
	case <-c.said:
		return false
	default:
		return true
	}
}

// serving returns the run that follows the epoch in force, else the oldest that
// goes on; complete tells which of both. There is one run at least.
func (c *cluster) serving() (r *run, complete bool) {
	for _, r := range slices.Backward(c.runs) {
		if r.spec.Epoch == c.complete.Epoch && !r.ending {
			return r, true
		}
	}
	for _, r := range c.runs {
		if !r.ending {
			return r, false
		}
	}
	return c.runs[0], false
}

// rotating reports whether a new epoch follows one that is complete. One that
// has tried for longer than patience is stuck and not counted.
func (c *cluster) rotating(now time.Time, patience time.Duration) bool {
	return c.complete.Epoch != 0 && slices.ContainsFunc(c.runs, func(r *run) bool {
		return r.spec.Epoch > c.complete.Epoch && !r.ending && now.Sub(r.began) < patience
	})
}

// told is what was logged last; it changes with what is worth a line.
type told struct {
	state State
	event event
}

// maxRuns is how many epochs of a cluster may run at once: the one in force and
// the one that is to follow it. A third waits until one of them has ended.
const maxRuns = 2

// step takes an event in and logs what a person has to know: each change once,
// not each repetition of the same trouble in other words.
func (c *cluster) step(now time.Time, e event, reason string, log *slog.Logger) {
	c.life.step(now, e, reason)
	t := told{c.life.state, e}
	quiet := t.state == Suspect || t.state == Stale
	if quiet && (e == evUnreachable || e == evSilent || e == evExpire) {
		t.event = evSilent // the same trouble, as it comes and goes
	}
	if t == c.told {
		return
	}
	was := c.told
	c.told = t
	log = log.With("cluster", c.claim.id)
	switch {
	case quiet && t.event == evSilent && t.state == Suspect:
		log.Warn("cluster is silent, its endpoints stay as they are", "state", t.state, "reason", reason)
	case quiet && t.event == evSilent:
		log.Error("cluster is silent for long, its endpoints stay as they were heard last", "state", t.state, "reason", reason)
	case e == evUnreachable:
		log.Warn("cluster does not answer", "state", t.state, "err", reason)
	case e == evDeny:
		log.Error("cluster refuses the credential", "state", t.state, "from", c.claim.owner(), "err", reason)
	case e == evAnswer, e == evComplete:
		if was.event == evUnreachable || was.event == evDeny || was.event == evSilent {
			log.Info("cluster answers", "state", t.state)
		}
	}
}

// observe derives the state from what the sources have seen. The epoch in force
// decides; what is wrong with a newer one is told beside it.
func (c *cluster) observe(now time.Time, limits *Liveness, log *slog.Logger) {
	if len(c.runs) == 0 {
		return
	}
	newest := c.runs[len(c.runs)-1]
	serving, complete := c.serving()
	h, err := serving.health()
	e, reason, ok := judge(&h, err, complete)
	if serving.spec.Config != nil { // a directory is always alive
		c.pulse.take(&h, serving.probing())
		g, why := limits.judge(now, &c.pulse)
		e, reason, ok = weigh(c.complete.Epoch != 0, g, why, &c.pulse, e, reason, ok)
	}
	c.lastError = reason
	if serving != newest {
		nh, nerr := newest.health()
		if _, r, nok := judge(&nh, nerr, false); nok && r != "" {
			c.lastError = "new credential: " + r
			reason = c.lastError
		}
	}
	if c.queued {
		reason = "its new credential waits until fewer clusters rotate"
	}
	if c.claim.err != nil {
		c.lastError = c.claim.err.Error()
		reason = "it runs on its earlier kubeconfig: " + c.lastError
	}
	if ok {
		c.step(now, e, reason, log)
	}
}

// finish takes in that the core has all of an epoch. From now on the core hears
// no older one, whatever became of this one meanwhile.
func (c *cluster) finish(now time.Time, s model.Synced, log *slog.Logger) {
	if c.leaving || s.Epoch <= c.complete.Epoch || s.Epoch <= c.base || s.Epoch > c.newest {
		return
	}
	rotated := c.complete.Epoch != 0
	c.complete, c.took, c.timedOut = s, 0, false
	for _, r := range c.runs {
		if r.spec.Epoch == s.Epoch {
			c.took = now.Sub(r.began)
		}
	}
	text := "cluster synced"
	if rotated {
		text = "cluster synced with its new credential"
	}
	log.Info(text, "cluster", c.claim.id, "epoch", s.Epoch, "services", s.Services, "slices", s.Slices,
		"workloads", s.Workloads, "endpoints", s.Endpoints, "took", c.took.Round(time.Millisecond))
}

// settle forgets runs that have ended, ends those that are not wanted any more,
// and reports whether a new one has to be started for the credential that is.
func (c *cluster) settle() (start bool) {
	c.runs = slices.DeleteFunc(c.runs, (*run).ended)
	for _, r := range c.runs {
		switch {
		case r.spec.Epoch < c.complete.Epoch:
			r.end() // the core does not listen to it any more
		case r.spec.Epoch > c.complete.Epoch && !r.follows(&c.claim) && c.claim.err == nil:
			r.end() // its credential was replaced before it was in force
		}
	}
	if c.claim.err != nil {
		return false
	}
	for _, r := range c.runs {
		if !r.ending && r.follows(&c.claim) {
			return false // in force, or on its way
		}
	}
	return len(c.runs) < maxRuns
}

// status returns what is shown of the cluster.
func (c *cluster) status() Status {
	s := Status{
		ID: c.claim.id, Type: c.claim.kind.String(), kind: c.claim.kind, Secret: c.claim.secret, File: c.claim.file, Dir: c.claim.dir,
		State: c.life.state, Reason: c.life.reason, Since: c.life.since, Added: c.added, Epoch: c.newest,
		LastError: c.lastError, TimedOut: c.timedOut,
	}
	if c.newest == c.base {
		s.Epoch = 0 // none was started
	}
	if k := &c.complete; k.Epoch != 0 {
		s.Epoch, s.Known, s.SyncDuration = k.Epoch, true, c.took
		s.Services, s.Slices, s.Workloads, s.Endpoints = k.Services, k.Slices, k.Workloads, k.Endpoints
	}
	s.health = c.frozen
	for _, r := range c.runs {
		if r.spec.Epoch == s.Epoch && !r.ending {
			s.health, _ = r.health()
		}
	}
	s.Kinds, s.LastEvent = kindsOf(&s.health)
	if len(c.runs) > 0 {
		serving, _ := c.serving()
		if a := serving.probing(); a.probed && !serving.ending {
			s.Probe = &ProbeStatus{Answered: a.answered.UTC(), Took: a.took, Failure: a.failure, Failures: a.failures}
		}
	}
	s.Served = c.served()
	if c.drain != nil && !c.leaving {
		s.Removal = &Removal{Begins: c.drainBegins, Ends: c.drain.ends()}
	}
	return s
}

// served returns which part of the endpoints the core serves, in percent.
func (c *cluster) served() uint8 {
	if c.share == 0 {
		return 100
	}
	return c.share
}
