package clusters

import (
	"fmt"
	"time"

	"tributary/model"
)

// A cluster that is no longer wanted leaves in steps. Its watches end at once,
// since its credential may have been revoked. What is known of it stays frozen
// for the undo window. Then its endpoints leave in portions, so that what they
// carried shifts to other clusters little by little and not within one push:
//
//	window over    75 % are served
//	one pause on   50 %
//	two pauses on  25 %
//	three          none: the cluster is removed
//
// Which endpoints go is derived by the core from the share alone. What it cannot
// know, because it knows no time, is how far the drain is: that is decided here
// and told to it as a batch with a Share. The last step is the removal itself, of
// services as well, so that nothing has to be undone after it.

// drainShares are the shares in percent after each step but the last.
var drainShares = [...]uint8{75, 50, 25}

// drainPause is how long a step lasts, or as long as the undo window if that is
// shorter: who sets a short window does not want to wait for long.
const drainPause = 5 * time.Second

// drain is how far a cluster is on its way out. It reads no clock and does
// nothing itself.
type drain struct {
	pause time.Duration
	steps int       // taken
	due   time.Time // when the next one is
}

func newDrain(now time.Time, window time.Duration) *drain {
	return &drain{pause: min(drainPause, window), due: now.Add(window)}
}

// advance takes a step if one is due. It takes one at a time: after a time in
// which nothing ran, steps follow each other as slowly as ever.
func (d *drain) advance(now time.Time) bool {
	if d.over() || now.Before(d.due) {
		return false
	}
	d.steps++
	d.due = now.Add(d.pause)
	return true
}

// share returns how much of the cluster is served, in percent.
func (d *drain) share() uint8 {
	switch {
	case d.steps == 0:
		return 100
	case d.over():
		return 0
	}
	return drainShares[d.steps-1]
}

// over reports whether the cluster is to be removed.
func (d *drain) over() bool { return d.steps > len(drainShares) }

// ends returns when the last step is due.
func (d *drain) ends() time.Time {
	return d.due.Add(time.Duration(max(0, len(drainShares)-d.steps)) * d.pause)
}

// dismiss begins the removal of a cluster that is no longer wanted: at once if
// there is no undo window, or nothing that could be undone.
func (m *Manager) dismiss(now time.Time, c *cluster) {
	if m.options.UndoWindow <= 0 || c.complete.Epoch == 0 {
		m.remove(now, c, c.claim.lost())
		return
	}
	c.freeze()
	c.drain = newDrain(now, m.options.UndoWindow)
	c.drainBegins = c.drain.due
	c.step(now, evDrain, c.claim.lost()+"; what was known of it stays for a while, then leaves in steps", m.log)
	m.log.Warn("cluster is not wanted any more, its endpoints stay until the undo window is over", "cluster", c.claim.id,
		"reason", c.claim.lost(), "window", m.options.UndoWindow)
}

// leave takes the next step of a drain if it is due and the core has taken the
// last one.
func (m *Manager) leave(now time.Time, c *cluster) {
	if c.saying() || !c.drain.advance(now) {
		return
	}
	if c.drain.over() {
		m.remove(now, c, c.claim.lost())
		return
	}
	if c.drain.steps == 1 {
		m.log.Info("cluster drains", "cluster", c.claim.id, "until", c.drain.ends())
	}
	m.tellShare(c, c.drain.share())
}

// keep ends a drain: the cluster is wanted again. What is left of it stays as it
// is until the new epoch is complete, which brings the rest back.
func (m *Manager) keep(now time.Time, c *cluster) {
	c.drain = nil
	c.pulse.begin(now) // what is old on purpose is not stale
	c.step(now, evUndrain, "it is wanted again; what was known of it stays until it is read anew", m.log)
	m.log.Info("removal of cluster is undone", "cluster", c.claim.id, "served", fmt.Sprint(c.served(), "%"))
}

// tellShare tells the core which part of a cluster is served.
func (m *Manager) tellShare(c *cluster, share uint8) {
	c.share = share
	m.say(c, model.Batch{Source: source(c.claim.id), Epoch: c.newest, Share: share, Received: time.Now()})
}

// say hands over what the manager itself has to say of a cluster, in order and
// without waiting.
func (m *Manager) say(c *cluster, b model.Batch) {
	before, done := c.said, make(chan struct{})
	c.said = done
	m.work.Go(func() {
		defer m.changed()
		defer close(done)
		if before != nil {
			<-before
		}
		if err := m.out(m.ctx, b); err != nil && m.ctx.Err() == nil {
			m.log.Error("a cluster's share could not be told", "cluster", b.Source.Cluster, "err", err)
		}
	})
}
