package table

// Strings keeps one copy of each distinct string that is in use, counted by
// reference. The zero value is ready for use.
//
// Releasing the last reference forgets the string but does not invalidate it:
// a reader that still holds it keeps it alive, so nothing that was published
// can change under its reader.
type Strings struct{ m map[string]counted[string] }

type counted[V any] struct {
	value V
	refs  uint32
}

// Intern returns the kept copy of s and counts one more reference to it.
func (t *Strings) Intern(s string) string {
	if s == "" {
		return ""
	}
	if t.m == nil {
		t.m = map[string]counted[string]{}
	}
	e, ok := t.m[s]
	if !ok {
		e.value = s
	}
	e.refs++
	t.m[e.value] = e
	return e.value
}

// Release takes back one reference to s.
func (t *Strings) Release(s string) {
	if s == "" {
		return
	}
	e, ok := t.m[s]
	switch {
	case !ok:
		panic("table: released a string that is not interned")
	case e.refs == 1:
		delete(t.m, s)
	default:
		e.refs--
		t.m[s] = e
	}
}

// Len returns how many distinct strings are in use.
func (t *Strings) Len() int { return len(t.m) }

// Values keeps one copy of each distinct value that is in use, counted by
// reference, and hands out pointers to it: equal values have equal pointers
// while they are in use. What a pointer points to never changes. The zero value
// is ready for use.
type Values[V comparable] struct{ m map[V]counted[*V] }

// Intern returns the pointer to the kept copy of v and counts one more
// reference to it.
func (t *Values[V]) Intern(v V) *V {
	if t.m == nil {
		t.m = map[V]counted[*V]{}
	}
	e, ok := t.m[v]
	if !ok {
		e.value = &v
	}
	e.refs++
	t.m[v] = e
	return e.value
}

// Release takes back one reference to *p.
func (t *Values[V]) Release(p *V) {
	e, ok := t.m[*p]
	switch {
	case !ok:
		panic("table: released a value that is not interned")
	case e.refs == 1:
		delete(t.m, *p)
	default:
		e.refs--
		t.m[*p] = e
	}
}

// Len returns how many distinct values are in use.
func (t *Values[V]) Len() int { return len(t.m) }
