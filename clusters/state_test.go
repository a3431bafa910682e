package clusters

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// path is a way from pending to each state, by events.
func TestEveryStateIsReached(t *testing.T) {
	for want, path := range map[State][]event{
		Pending:  {evStart},
		Syncing:  {evStart, evAnswer},
		Synced:   {evStart, evAnswer, evComplete},
		Suspect:  {evComplete, evSilent},
		Stale:    {evComplete, evSilent, evExpire},
		Draining: {evComplete, evSilent, evExpire, evDrain},
		Removed:  {evComplete, evRemove},
		Invalid:  {evRefuse},
		Denied:   {evStart, evDeny},
		Conflict: {evClash},
	} {
		l, now := life{}, time.Unix(1000, 0)
		for _, e := range path {
			now = now.Add(time.Second)
			l.step(now, e, "because of "+e.String())
		}
		if l.state != want || l.reason != "because of "+path[len(path)-1].String() {
			t.Errorf("%v leads to %v, want %v", path, &l, want)
		}
	}
}

// The arrows of the design, and those that must not be.
func TestTransitions(t *testing.T) {
	for _, c := range []struct {
		from State
		e    event
		to   State
	}{
		{Synced, evUnreachable, Synced}, // a break of the watch is no news yet
		{Suspect, evComplete, Synced},
		{Stale, evComplete, Synced},
		{Stale, evAnswer, Syncing},
		{Stale, evDeny, Stale}, // its endpoints stay graded
		{Draining, evComplete, Draining},
		{Draining, evUndrain, Syncing}, // read anew first
		{Syncing, evDrain, Draining},
		{Invalid, evDrain, Draining}, // refused after its removal was undone
		{Draining, evRemove, Removed},
		{Synced, evRefuse, Synced}, // the earlier kubeconfig goes on
		{Synced, evDeny, Denied},
		{Denied, evComplete, Synced},
		{Denied, evExpire, Stale},
		{Invalid, evStart, Pending},
		{Conflict, evStart, Pending},
		{Syncing, evUnreachable, Syncing},
		{Removed, evStart, Removed},
	} {
		if got := transitions[c.from][c.e]; got != c.to {
			t.Errorf("%v on %v: %v, want %v", c.from, c.e, got, c.to)
		}
	}
	for s := range states {
		if got := transitions[s][evRemove]; got != Removed {
			t.Errorf("%v on remove: %v", s, got)
		}
	}
}

// Whatever happens in whatever order: removed is the end, the time of a state
// moves only with the state, and a cluster that answered once is never pending.
func TestLifeOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, now := life{since: time.Unix(0, 0)}, time.Unix(0, 0)
		answered, removed := false, false
		for _, e := range rapid.SliceOf(rapid.Map(rapid.IntRange(0, int(events)-1), func(i int) event { return event(i) })).Draw(t, "events") {
			now = now.Add(time.Second)
			before := l
			changed := l.step(now, e, "x")
			switch {
			case changed != (l.state != before.state):
				t.Fatalf("%v on %v: changed is %v", &before, e, changed)
			case changed && !l.since.Equal(now), !changed && !l.since.Equal(before.since):
				t.Fatalf("%v on %v: since %v", &before, e, l.since)
			case removed && l.state != Removed:
				t.Fatalf("a removed cluster is %v", &l)
			}
			// A claim that is refused has nothing running, and begins anew.
			answered = (answered || l.state == Syncing || l.state == Synced) && l.state != Invalid && l.state != Conflict
			removed = l.state == Removed
			if answered && l.state == Pending {
				t.Fatalf("%v on %v: pending again", &before, e)
			}
		}
	})
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range states {
		if s.String() == "" || seen[s.String()] {
			t.Errorf("state %d is called %q", s, s)
		}
		seen[s.String()] = true
	}
	for e := range events {
		if e.String() == "" {
			t.Errorf("event %d has no name", e)
		}
	}
}
