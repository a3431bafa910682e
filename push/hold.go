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

// Hold decides when pending changes are pushed. A change after quiet goes out
// after Settle. Under load the distance between pushes grows with their measured
// cost, so that pushing takes about Share of the CPUs, up to Max. Nothing
// re-arms it: a source that keeps changing cannot delay anybody beyond Max.
//
// It is a state machine without a clock; it is not safe for concurrent use.
type Hold struct {
	Settle time.Duration // debounceAfter
	Max    time.Duration // debounceMax
	Share  float64       // CPU seconds a second that pushing may take: share x CPUs

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
	h.due = now.Add(h.Settle)
	if next := h.last.Add(h.Distance()); next.After(h.due) && !h.last.IsZero() {
		h.due = next
	}
}

// Distance returns how far apart pushes are under load.
func (h *Hold) Distance() time.Duration {
	d := h.Settle
	if h.Share > 0 {
		d = max(d, time.Duration(float64(h.cost)/h.Share))
	}
	// When a single push costs more than Max, pushing more often than it takes
	// would only queue: the hold grows with it.
	return min(d, max(h.Max, h.cost))
}

// Due returns when the pending changes go out; ok is false if there are none.
func (h *Hold) Due() (at time.Time, ok bool) { return h.due, !h.due.IsZero() }

// Push takes the pending changes at time now and returns how many there are and
// how long the first of them waited.
func (h *Hold) Push(now time.Time) (changes int, held time.Duration) {
	changes, held = h.changes, now.Sub(h.first)
	if h.cost > h.Max {
		h.grown++
	}
	h.due, h.first, h.changes, h.last = time.Time{}, time.Time{}, 0, now
	return changes, held
}

// Cost takes in the measured CPU time between two pushes. A rise counts at
// once, a fall slowly: a quiet moment must not let the next burst through.
func (h *Hold) Cost(d time.Duration) {
	if d >= h.cost {
		h.cost = d
		return
	}
	h.cost -= (h.cost - d) / 4
}

// Grown returns how many pushes were held beyond Max because one costs more.
func (h *Hold) Grown() uint64 { return h.grown }
