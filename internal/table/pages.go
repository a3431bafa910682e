package table

// fan is how many entries a page has: copying two pages of it is cheap, and
// three levels of it hold a quarter of a million rows before the top one grows
// past a page.
const fan = 64

// Pages is an array that one goroutine writes and any number of goroutines
// read, in the form of frozen copies. Freezing copies nothing; a write after it
// copies two pages. Where a Tree keeps an order, Pages keep a number, so a write
// compares no keys. The zero value is ready for use.
type Pages[T any] struct {
	top    []*middle[T]
	frozen bool   // top is that of a frozen copy
	era    uint64 // counts Freeze; pages of an older one are shared
}

type middle[T any] struct {
	leaves [fan]*leaf[T]
	era    uint64
}

type leaf[T any] struct {
	rows [fan]T
	era  uint64
}

// Set puts v at i. What was never set is the zero value.
func (p *Pages[T]) Set(i uint32, v T) {
	t, m, l := i/(fan*fan), i/fan%fan, i%fan
	if p.frozen {
		p.top, p.frozen = append([]*middle[T](nil), p.top...), false
	}
	for int(t) >= len(p.top) {
		p.top = append(p.top, &middle[T]{era: p.era})
	}
	mid := p.top[t]
	if mid.era != p.era {
		c := *mid
		c.era = p.era
		mid, p.top[t] = &c, &c
	}
	page := mid.leaves[m]
	if page == nil {
		page = &leaf[T]{era: p.era}
		mid.leaves[m] = page
	} else if page.era != p.era {
		c := *page
		c.era = p.era
		page, mid.leaves[m] = &c, &c
	}
	page.rows[l] = v
}

// Get returns what is at i.
func (p *Pages[T]) Get(i uint32) T { return FrozenPages[T]{p.top}.Get(i) }

// Freeze returns the array as it is now. Only the writer may call it.
func (p *Pages[T]) Freeze() FrozenPages[T] {
	p.era++
	p.frozen = true
	return FrozenPages[T]{p.top}
}

// FrozenPages is a state of Pages that never changes. The zero value is empty.
type FrozenPages[T any] struct{ top []*middle[T] }

// Get returns what is at i; the zero value where nothing was set.
func (f FrozenPages[T]) Get(i uint32) (v T) {
	t, m, l := i/(fan*fan), i/fan%fan, i%fan
	if int(t) >= len(f.top) || f.top[t].leaves[m] == nil {
		return v
	}
	return f.top[t].leaves[m].rows[l]
}
