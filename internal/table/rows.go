package table

import "slices"

// IDs is a sorted set of row ids: the postings of one key. Most keys have few,
// so a slice costs less than a map and lists itself in order.
type IDs []uint32

// Add puts id into the set and reports whether it was new.
func (s *IDs) Add(id uint32) bool {
	i, found := slices.BinarySearch(*s, id)
	if found {
		return false
	}
	if n := len(*s); n == cap(*s) {
		// Grows by little: there are many postings, and few grow often.
		grown := make(IDs, n, n+2+n/4)
		copy(grown, *s)
		*s = grown
	}
	*s = slices.Insert(*s, i, id)
	return true
}

// Remove takes id out of the set and reports whether it was there.
func (s *IDs) Remove(id uint32) bool {
	i, found := slices.BinarySearch(*s, id)
	if found {
		*s = slices.Delete(*s, i, i+1)
		if len(*s) == 0 {
			*s = nil // lets go of the memory
		}
	}
	return found
}

// Rows gives rows dense ids, so that postings hold four bytes a row. An id is
// used again after its row was removed: ids must not outlive the row in any
// posting. The zero value is ready for use.
type Rows[R any] struct {
	rows []R
	free []uint32
}

// Add stores r and returns its id.
func (t *Rows[R]) Add(r R) uint32 {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		t.rows[id] = r
		return id
	}
	t.rows = append(t.rows, r)
	return uint32(len(t.rows) - 1)
}

// Get returns the row with that id, for reading and writing. The pointer is
// valid until the next Add.
func (t *Rows[R]) Get(id uint32) *R { return &t.rows[id] }

// Remove forgets the row with that id.
func (t *Rows[R]) Remove(id uint32) {
	var zero R
	t.rows[id] = zero
	t.free = append(t.free, id)
}

// Len returns how many rows there are.
func (t *Rows[R]) Len() int { return len(t.rows) - len(t.free) }
