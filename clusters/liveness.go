package clusters

import (
	"strings"
	"time"

	"tributary/model"
)

// Whether a cluster is alive is told by two things that fail apart from each
// other: its API server answers a probe of our own (probe.go), and each watch
// brings an event or a bookmark now and then. A server that answers probes while
// its watches are dead would look well by the first alone, and an idle cluster
// dead by the second, if bookmarks were not sent about once a minute.
//
//	probe, or a kind       silent for          grade
//	both                   less than below     alive
//	probe                  Unanswered (15 s)   silent: the cluster is suspect
//	a kind                 Unheard (150 s)     silent: the cluster is suspect
//	either                 Stale (5 min)       expired: the cluster is stale
//
// What is heard again is alive at once. A directory has no API server, and is
// always alive.

// Liveness is how long a cluster may be silent. What is 0 is as by default.
type Liveness struct {
	// ProbeInterval is how often each API server is asked whether it is there,
	// and ProbeTimeout how long it may take to answer.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	// Unanswered and Unheard make a cluster suspect: the time without an answer
	// to a probe, and without an event or bookmark of one kind.
	Unanswered time.Duration
	Unheard    time.Duration
	// Stale is after how long a silence of either kind makes it stale.
	Stale time.Duration
}

// DefaultLiveness returns the times that are used where nothing else is set.
func DefaultLiveness() Liveness {
	return Liveness{ProbeInterval: 5 * time.Second, ProbeTimeout: 4 * time.Second, Unanswered: 15 * time.Second, Unheard: 150 * time.Second, Stale: 5 * time.Minute}
}

// orDefaults fills in what is not set.
func (l Liveness) orDefaults() Liveness {
	d := DefaultLiveness()
	for _, v := range []struct {
		set  *time.Duration
		what time.Duration
	}{
		{&l.ProbeInterval, d.ProbeInterval}, {&l.ProbeTimeout, d.ProbeTimeout}, {&l.Unanswered, d.Unanswered}, {&l.Unheard, d.Unheard}, {&l.Stale, d.Stale},
	} {
		if *v.set <= 0 {
			*v.set = v.what
		}
	}
	return l
}

// pulse is when a cluster was heard last. It is kept over the runs of a cluster:
// a source that begins anew makes what is known no younger.
type pulse struct {
	begun  time.Time // silence of what never spoke, or is to speak again, begins here
	probed bool      // its API server is asked

	answered time.Time // the newest answer to a probe
	failure  string    // why the newest probe had none; "" if it had
	denied   bool      // the newest answer refuses the credential

	heard   [model.Kinds]time.Time // event, bookmark or page of a list
	without [model.Kinds]bool      // kinds that the source has not, or may not read
}

// begin makes that silence counts from now.
func (p *pulse) begin(now time.Time) { p.begun = now }

// take takes in what a source and its probe have observed.
func (p *pulse) take(h *model.SourceHealth, a answer) {
	for k := range model.Kinds {
		row := &h.Kinds[k]
		if row.LastEvent.After(p.heard[k]) {
			p.heard[k] = row.LastEvent
		}
		p.without[k] = k.Optional() && (p.heard[k].IsZero() || row.Remark != "")
	}
	p.probed, p.failure, p.denied = a.probed, a.failure, a.denied
	if a.answered.After(p.answered) {
		p.answered = a.answered
	}
}

// grade is how a cluster's silence is to be taken.
type grade uint8

const (
	alive grade = iota
	silent
	expired
)

var gradeNames = [...]string{"alive", "silent", "expired"}

func (g grade) String() string { return gradeNames[g] }

// judge tells how silent a cluster is at a moment, and what of it: the probe if
// that is as bad as anything, else the kinds that are. It is a function of its
// arguments.
func (l *Liveness) judge(now time.Time, p *pulse) (g grade, reason string) {
	since := func(t time.Time) time.Time {
		if t.Before(p.begun) {
			return p.begun
		}
		return t
	}
	grading := func(last time.Time, limit time.Duration) grade {
		switch d := now.Sub(last); {
		case d >= l.Stale:
			return expired
		case d >= limit:
			return silent
		}
		return alive
	}
	if p.probed {
		last := since(p.answered)
		if g = grading(last, l.Unanswered); g != alive {
			reason = "no answer since " + clock(last)
			if p.failure != "" {
				reason += ": " + p.failure
			}
		}
	}
	var kinds []string
	var oldest time.Time
	for k := range model.Kinds {
		if p.without[k] {
			continue
		}
		last := since(p.heard[k])
		this := grading(last, l.Unheard)
		if this == alive || this < g || this == g && kinds == nil && reason != "" {
			continue // nothing to tell, or told already
		}
		if this > g || oldest.IsZero() || last.Before(oldest) {
			oldest = last
		}
		if this > g {
			g, kinds = this, nil
		}
		kinds = append(kinds, k.String())
	}
	if kinds != nil {
		reason = strings.Join(kinds, ", ") + ": no event or bookmark since " + clock(oldest)
	}
	return g, reason
}

// clock writes a time for a reason. It does not change while the silence lasts,
// as a duration would.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// weigh puts what a source says of itself (e, with a reason; ok is false if it
// says nothing yet) and how silent its cluster is into one event. known tells
// whether the core has rows of the cluster: of nothing, nothing is stale.
func weigh(known bool, g grade, why string, p *pulse, e event, reason string, ok bool) (event, string, bool) {
	switch told := p.failure != "" && strings.Contains(why, p.failure); {
	case why == "" || told:
	case reason != "":
		why += "; " + reason
	case p.failure != "":
		why += "; " + p.failure
	}
	switch {
	case g == expired && known:
		return evExpire, why, true
	case ok && e == evDeny:
		return e, reason, true
	case p.denied:
		return evDeny, p.failure, true
	case g == silent && known:
		return evSilent, why, true
	case g != alive && (!ok || e == evAnswer || e == evComplete):
		return evUnreachable, why, true
	}
	return e, reason, ok
}
