package aggregate_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"tributary/aggregate"
	"tributary/model"
)

// TestNothingIsLeft: when all sources are gone, however they lived, the core is
// empty but for the epochs that it must not hear again.
func TestNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			w.event(t)
			w.round(t, w.take(t)...)
		}
		w.round(t, w.drain(t)...)
		for _, s := range allSources {
			w.round(t, model.Batch{Source: s, Epoch: w.epochs[s], Removed: true})
		}
		sizes := aggregate.Sizes(w.core)
		delete(sizes, "gone")
		for what, n := range sizes {
			if n != 0 {
				t.Fatalf("%d %s are left: %v", n, what, sizes)
			}
		}
		if n := w.store.Load().Len(); n != 0 {
			t.Fatalf("%d services are left", n)
		}
	})
}

// TestThousandRotations: a thousand new credentials, some with differences, some
// superseded, leave the core as large as it was.
func TestThousandRotations(t *testing.T) {
	f := newFleet(t)
	before := aggregate.Sizes(f.core)
	without := false // a row, so that the next replay differs
	replay := func(epoch uint64, kinds []model.Kind, less bool) {
		differs := less != without && len(kinds) == int(model.Kinds)
		for _, k := range kinds {
			b := f.batch(moveSource, k, epoch)
			b.SnapshotStart, b.SnapshotEnd = true, true
			for i, row := range f.said(moveSource, k) {
				if !less || i > 0 {
					f.add(&b, f.again(row))
				}
			}
			if d := f.core.Round(f.now, []model.Batch{b}); len(d.Services) > 0 && !differs {
				t.Fatalf("epoch %d: replaying is no empty delta: %+v", epoch, d.Services[0].Push)
			} else if len(d.Synced) > 0 != (k == kinds[len(kinds)-1] && len(kinds) == int(model.Kinds)) {
				t.Fatalf("epoch %d, %v: synced %v", epoch, k, d.Synced)
			} else {
				f.laws.check(t, d, f.store.Apply(d))
			}
		}
		if len(kinds) == int(model.Kinds) {
			without = less
		}
	}
	all := kindsOf(moveSource)
	rnd := rand.New(rand.NewPCG(1, 2))
	for epoch := uint64(2); epoch < 1002; epoch++ {
		if rnd.IntN(3) == 0 {
			replay(epoch, all[:1+rnd.IntN(2)], false) // superseded before it is complete
			continue
		}
		if rnd.IntN(3) == 0 {
			replay(epoch, all, true)
			epoch++
		}
		replay(epoch, all, false)
	}
	replay(2000, all, false)
	if after := aggregate.Sizes(f.core); !maps.Equal(before, after) {
		t.Fatalf("before %v\nafter  %v", before, after)
	}
}

// TestRemovedIsNotHeard: what a removed source says on its way out is ignored;
// what a newer epoch says in the same round counts; a superseded epoch cannot
// remove anything.
func TestRemovedIsNotHeard(t *testing.T) {
	f := newFleet(t)
	said := func(epoch uint64) (batches []model.Batch) {
		for _, k := range kindsOf(moveSource) {
			b := f.batch(moveSource, k, epoch)
			b.SnapshotStart, b.SnapshotEnd = true, true
			for _, row := range f.said(moveSource, k) {
				f.add(&b, f.again(row))
			}
			batches = append(batches, b)
		}
		return batches
	}
	old, next := said(1), said(2)
	removed := model.Batch{Source: moveSource, Epoch: 1, Removed: true}
	d := f.round(t, append([]model.Batch{removed}, old...)...)
	if len(d.Gone) != 1 || len(d.Services) != 1 || d.Services[0].Definition != nil {
		t.Fatalf("%+v", d)
	}
	f.settle(t)
	f.want("gone")
	f.round(t, append(old, next...)...)
	f.want("added again", 1, 2, 3)
	f.round(t, removed)
	f.want("a late removal", 1, 2, 3)
	next = said(3)
	removed.Epoch = 2
	d = f.round(t, append([]model.Batch{removed}, next...)...)
	f.want("removed and added in one round", 1, 2, 3)
	if len(d.Services) != 0 || len(d.Gone) != 1 || len(d.Synced) != 1 {
		t.Fatalf("the same under another epoch: %+v", d)
	}
	if n, ok := f.store.Load().Synced(moveSource); !ok || n.Epoch != 3 {
		t.Fatalf("synced %v %v", n, ok)
	}
	f.settle(t)
}
