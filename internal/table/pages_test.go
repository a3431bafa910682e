package table

import (
	"math/rand/v2"
	"testing"
)

// Every frozen copy stays as it was, whatever is written after it.
func TestPagesFrozenStay(t *testing.T) {
	const rows = 3 * fan * fan
	r := rand.New(rand.NewPCG(1, 2))
	var p Pages[int]
	want := map[uint32]int{}
	type copied struct {
		f    FrozenPages[int]
		want map[uint32]int
	}
	var copies []copied
	for n := range 20000 {
		i := uint32(r.IntN(rows))
		if n%3 == 0 {
			i = uint32(r.IntN(fan)) // close together too
		}
		p.Set(i, n+1)
		want[i] = n + 1
		if n%2000 == 0 {
			c := map[uint32]int{}
			for k, v := range want {
				c[k] = v
			}
			copies = append(copies, copied{p.Freeze(), c})
		}
		if n%7 == 0 {
			p.Freeze()
		}
	}
	copies = append(copies, copied{p.Freeze(), want}, copied{FrozenPages[int]{}, nil})
	for n, c := range copies {
		for i := range uint32(rows + fan) {
			if got := c.f.Get(i); got != c.want[i] {
				t.Fatalf("copy %d, row %d: got %d, want %d", n, i, got, c.want[i])
			}
		}
	}
}
