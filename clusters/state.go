package clusters

import (
	"fmt"
	"time"
)

// State is where a cluster stands in its life. Names are the same in logs,
// metrics, API and pages.
type State uint8

const (
	// Pending is a cluster that is known, and has not been heard yet.
	Pending State = iota
	// Syncing is one that answers, and what it holds is being read.
	Syncing
	// Synced is one of which all is known, and changes are followed.
	Synced
	// Suspect is one not heard for a while; its endpoints are used as before.
	Suspect
	// Stale is one not heard for long; its endpoints are used last.
	Stale
	// Draining is one whose endpoints are taken out step by step.
	Draining
	// Removed is one that is gone for good; its rows are being taken back.
	Removed
	// Invalid is one whose kubeconfig is refused; nothing was tried.
	Invalid
	// Denied is one that refuses the credential, or what it wants to do.
	Denied
	// Conflict is one whose ID belongs to another secret, or to the config cluster.
	Conflict

	states
)

var stateNames = [states]string{
	"pending", "syncing", "synced", "suspect", "stale", "draining", "removed", "invalid", "denied", "conflict",
}

func (s State) String() string { return stateNames[s] }

// MarshalText makes the name the form in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Refused reports whether nothing more is to be expected of the cluster until
// somebody changes its secret or its permissions.
func (s State) Refused() bool { return s == Invalid || s == Denied || s == Conflict }

// event is something that happens to a cluster.
type event uint8

const (
	evStart       event = iota // a source was started with an accepted kubeconfig
	evAnswer                   // it answers, and is not complete
	evComplete                 // it answers, and the core has all of it
	evUnreachable              // a request had no answer
	evDeny                     // a request was refused
	evSilent                   // known, and nothing heard for longer than a healthy watch is silent
	evExpire                   // known, and nothing heard for so long that it must be shown
	evDrain                    // take its endpoints out
	evUndrain                  // put them back
	evRefuse                   // its kubeconfig is refused
	evClash                    // its ID is taken
	evRemove                   // its rows are to go at once: the end of a drain, or without one

	events
)

var eventNames = [events]string{
	"start", "answer", "complete", "unreachable", "deny", "silent", "expire", "drain", "undrain", "refuse", "clash", "remove",
}

func (e event) String() string { return eventNames[e] }

// transitions says for every state what every event makes of it. It is written
// out whole, so that each pair has been thought about:
//
//   - What has answered once never goes back to pending. If it was complete its
//     rows are there, and suspect, stale and draining tell how fresh they are.
//   - A complete cluster whose kubeconfig is replaced by a refused one goes on
//     with the old one.
//   - Silence is told only of a cluster that the core has rows of, so that syncing
//     can become stale: a cluster whose removal was undone and that never answers.
//     Who was refused, or read anew, is suspect of nothing more for 5 minutes.
//   - A cluster that drains goes on draining, whatever is heard of it, until it
//     is undrained. Then it has to be read anew before it is synced: what is known
//     of it is as old as the drain.
//   - removed is the end. The same ID added again is another cluster.
//
// The columns are start, answer, complete, unreachable, deny, silent, expire,
// drain, undrain, refuse, clash, remove.
var transitions = [states][events]State{
	Pending:  {Pending, Syncing, Synced, Pending, Denied, Pending, Pending, Pending, Pending, Invalid, Conflict, Removed},
	Syncing:  {Syncing, Syncing, Synced, Syncing, Denied, Syncing, Stale, Draining, Syncing, Invalid, Conflict, Removed},
	Synced:   {Synced, Synced, Synced, Synced, Denied, Suspect, Stale, Draining, Synced, Synced, Synced, Removed},
	Suspect:  {Suspect, Syncing, Synced, Suspect, Denied, Suspect, Stale, Draining, Suspect, Suspect, Suspect, Removed},
	Stale:    {Stale, Syncing, Synced, Stale, Stale, Stale, Stale, Draining, Stale, Stale, Stale, Removed},
	Draining: {Draining, Draining, Draining, Draining, Draining, Draining, Draining, Draining, Syncing, Draining, Draining, Removed},
	Removed:  {Removed, Removed, Removed, Removed, Removed, Removed, Removed, Removed, Removed, Removed, Removed, Removed},
	Invalid:  {Pending, Invalid, Invalid, Invalid, Invalid, Invalid, Invalid, Draining, Invalid, Invalid, Conflict, Removed},
	Denied:   {Denied, Syncing, Synced, Denied, Denied, Denied, Stale, Draining, Denied, Denied, Conflict, Removed},
	Conflict: {Pending, Conflict, Conflict, Conflict, Conflict, Conflict, Conflict, Conflict, Conflict, Invalid, Conflict, Removed},
}

// life is the state of one cluster with its reason and time. It does no I/O and
// reads no clock.
type life struct {
	state  State
	reason string    // for a person; "" if there is nothing to say
	since  time.Time // when state began
}

// step takes an event in and reports whether the state changed. The reason is
// that of the event also if the state stays.
func (l *life) step(now time.Time, e event, reason string) bool {
	next := transitions[l.state][e]
	l.reason = reason
	if next == l.state && !l.since.IsZero() {
		return false
	}
	changed := next != l.state
	l.state, l.since = next, now
	return changed
}

func (l *life) String() string {
	if l.reason == "" {
		return l.state.String()
	}
	return fmt.Sprintf("%s (%s)", l.state, l.reason)
}
