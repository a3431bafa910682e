package table

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Strings
		twin := map[string]int{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			s := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "string")
			if rapid.Bool().Draw(t, "intern") {
				if got := table.Intern(strings.Clone(s)); got != s {
					t.Fatalf("%q became %q", s, got)
				}
				if s != "" {
					twin[s]++
				}
				continue
			}
			if panics(func() { table.Release(s) }) != (s != "" && twin[s] == 0) {
				t.Fatalf("release of %q with %d references", s, twin[s])
			}
			if twin[s]--; twin[s] <= 0 {
				delete(twin, s)
			}
		}
		if table.Len() != len(twin) {
			t.Fatalf("%d strings, want %d", table.Len(), len(twin))
		}
	})
}

func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct{ a, b string }
		var table Values[pair]
		held := map[pair][]*pair{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			v := pair{rapid.SampledFrom([]string{"", "x"}).Draw(t, "a"), rapid.SampledFrom([]string{"", "y"}).Draw(t, "b")}
			if h := held[v]; rapid.Bool().Draw(t, "intern") {
				p := table.Intern(v)
				if *p != v || len(h) > 0 && h[0] != p {
					t.Fatal("equal values have different pointers")
				}
				held[v] = append(h, p)
			} else if len(h) > 0 {
				table.Release(h[0])
				if held[v] = h[1:]; len(h) == 1 {
					delete(held, v)
				}
			} else if !panics(func() { table.Release(&v) }) {
				t.Fatal("released a value that is not interned")
			}
		}
		if table.Len() != len(held) {
			t.Fatalf("%d values, want %d", table.Len(), len(held))
		}
	})
}

func panics(f func()) (p bool) {
	defer func() { p = recover() != nil }()
	f()
	return false
}

func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ids IDs
		twin := map[uint32]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := rapid.Uint32Range(0, 9).Draw(t, "id")
			if rapid.Bool().Draw(t, "add") {
				if ids.Add(id) == twin[id] {
					t.Fatalf("Add(%d) of %v", id, ids)
				}
				twin[id] = true
			} else {
				if ids.Remove(id) != twin[id] {
					t.Fatalf("Remove(%d) of %v", id, ids)
				}
				delete(twin, id)
			}
			if !slices.Equal(ids, slices.Sorted(maps.Keys(twin))) || len(twin) == 0 && ids != nil {
				t.Fatalf("%v, want %v", ids, twin)
			}
		}
	})
}

func TestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows Rows[string]
		twin := map[uint32]string{}
		most := 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(twin) == 0 || rapid.Bool().Draw(t, "add") {
				r := rapid.String().Draw(t, "row")
				id := rows.Add(r)
				if _, used := twin[id]; used {
					t.Fatalf("id %d is in use", id)
				}
				twin[id] = r
			} else {
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(twin))).Draw(t, "id")
				rows.Remove(id)
				delete(twin, id)
			}
			most = max(most, len(twin))
			for id, r := range twin {
				if *rows.Get(id) != r || int(id) >= most {
					t.Fatalf("row %d is %q, want %q", id, *rows.Get(id), r)
				}
			}
			if rows.Len() != len(twin) {
				t.Fatalf("%d rows, want %d", rows.Len(), len(twin))
			}
		}
	})
}

// A tree is a sorted map, and its frozen copies never change.
func TestTree(t *testing.T) {
	type item struct{ key, value int }
	rapid.Check(t, func(t *rapid.T) {
		tree := NewTree(func(a, b item) bool { return a.key < b.key })
		twin := map[int]item{}
		type frozen struct {
			tree Frozen[item]
			list []item
		}
		list := func() []item {
			return slices.SortedFunc(maps.Values(twin), func(a, b item) int { return a.key - b.key })
		}
		var past []frozen
		size := rapid.SampledFrom([]int{4, 300}).Draw(t, "size") // one node, several
		for range rapid.IntRange(0, 8).Draw(t, "freezes") {
			for range rapid.IntRange(0, size).Draw(t, "writes") {
				it := item{rapid.IntRange(0, size).Draw(t, "key"), rapid.IntRange(0, 9).Draw(t, "value")}
				old, existed := twin[it.key]
				var got item
				var found bool
				if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
					got, found = tree.Delete(item{key: it.key})
					delete(twin, it.key)
				} else {
					got, found = tree.Set(it)
					twin[it.key] = it
				}
				if found != existed || got != old {
					t.Fatalf("%v, %v, want %v, %v", got, found, old, existed)
				}
			}
			past = append(past, frozen{tree.Freeze(), list()})
		}
		for _, f := range past {
			if got := slices.Collect(f.tree.All()); !slices.Equal(got, f.list) || f.tree.Len() != len(f.list) {
				t.Fatalf("a frozen tree changed: %v, want %v", got, f.list)
			}
			start := rapid.IntRange(0, size).Draw(t, "start")
			i, exact := slices.BinarySearchFunc(f.list, start, func(it item, k int) int { return it.key - k })
			if got := slices.Collect(f.tree.From(item{key: start})); !slices.Equal(got, f.list[i:]) {
				t.Fatalf("from %d: %v, want %v", start, got, f.list[i:])
			}
			if got, found := f.tree.Get(item{key: start}); found != exact || found && got != f.list[i] {
				t.Fatalf("Get(%d): %v, %v", start, got, found)
			}
			for range f.tree.All() {
				break
			}
		}
		now := list()
		if first, ok := tree.Min(); ok != (len(now) > 0) || ok && first != now[0] || tree.Len() != len(now) {
			t.Fatalf("Min %v, %v", first, ok)
		}
	})
	var none Frozen[item]
	if _, found := none.Get(item{}); found || none.Len() != 0 || slices.Collect(none.All()) != nil || slices.Collect(none.From(item{})) != nil {
		t.Error("the zero Frozen is not empty")
	}
}
