package push

import "time"

// Defaults of the hold.
const (
	// DefaultSettle is how long a change after quiet waits for others that
	// belong to it, such as both slices of a rolling update.
	DefaultSettle = 2 * time.Millisecond
	// DefaultMax bounds how long a change waits under load.
	DefaultMax = 100 * time.Millisecond
	// DefaultShare is the part of all CPUs that pushing may take before
	// changes are held longer and merged.
	DefaultShare = 0.04
)

// growth bounds how many times Max a change may wait when pushes cost too much.
const growth = 10

// Hold decides when pending changes are pushed. A change after quiet goes out
// after Settle. Under load the distance between pushes grows with their measured
// cost, so that pushing takes about Share of the CPUs, up to Max.
//
// The settings are named as in Istio and differ from it in one point. Istio waits
// until nothing has changed for PILOT_DEBOUNCE_AFTER (100 ms), each change anew,
// and for PILOT_DEBOUNCE_MAX (10 s) at most. Here debounceAfter runs from the
// first change and nothing re-arms it, so a source that keeps changing delays
// nobody; debounceMax bounds the distance that load may cause.
//
// It is a state machine without a clock; it is not safe for concurrent use.
type Hold struct {
	Settle time.Duration // debounceAfter
	Max    time.Duration // debounceMax
	Share  float64       // CPU seconds a second that pushing may take: share x CPUs
	CPUs   int           // how many there are; 0 counts as 1

	due     time.Time     // when the pending changes go out; zero if none
	first   time.Time     // when the first of them came
	changes int           // how many there are
	last    time.Time     // the last push
	cost    time.Duration // smoothed CPU time of a push
	grown   uint64
}

// Offer takes in changes at time now.
func (h *Hold) Offer(now time.Time, changes int) {
	h.changes += changes
	if !h.due.IsZero() {
		return
	}
	h.first = now
	h.due = now.Add(min(h.Settle, h.longest()))
	if next := h.last.Add(h.Distance()); next.After(h.due) && !h.last.IsZero() {
		h.due = next
	}
	if h.due.Sub(now) > h.Max {
		h.grown++
	}
}

// Distance returns how far apart pushes are under load.
func (h *Hold) Distance() time.Duration {
	d := h.Settle
	if h.Share > 0 {
		d = max(d, time.Duration(float64(h.cost)/h.Share))
	}
	return min(d, h.longest())
}

// longest returns the most that a change waits: Max, unless a single push keeps
// half of the CPUs busy for longer. Pushing more often than that would only queue
// and starve whoever makes the changes.
func (h *Hold) longest() time.Duration {
	return max(h.Max, 2*h.cost/time.Duration(max(1, h.CPUs)))
}

// Due returns when the pending changes go out; ok is false if there are none.
func (h *Hold) Due() (at time.Time, ok bool) { return h.due, !h.due.IsZero() }

// Push takes the pending changes at time now and returns how many there are and
// how long the first of them waited.
func (h *Hold) Push(now time.Time) (changes int, held time.Duration) {
	changes, held = h.changes, now.Sub(h.first)
	h.due, h.first, h.changes, h.last = time.Time{}, time.Time{}, 0, now
	return changes, held
}

// Cost takes in the measured CPU time of a push. A rise counts at once, a fall
// slowly: a quiet moment must not let the next burst through. What a process
// that is busy with other things measures is bounded, or each wait would make
// the next one longer.
func (h *Hold) Cost(d time.Duration) {
	d = min(d, time.Duration(max(1, h.CPUs))*growth*h.Max/2)
	if d >= h.cost {
		h.cost = d
		return
	}
	h.cost -= (h.cost - d) / 2
}

// Grown returns how many waits were longer than Max because one push costs more.
func (h *Hold) Grown() uint64 { return h.grown }
