package shards_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"tributary/model"
	"tributary/shards"
)

// record is what a snapshot held when it was made.
type record struct {
	snap *shards.Snapshot
	all  map[model.ServiceKey]*shards.Service
}

func contents(s *shards.Snapshot) map[model.ServiceKey]*shards.Service {
	all := map[model.ServiceKey]*shards.Service{}
	for svc := range s.Services() {
		all[svc.Key] = svc
	}
	return all
}

func keyOf(n int) model.ServiceKey {
	return model.ServiceKey{Host: fmt.Sprintf("h%02d", n/2), Namespace: fmt.Sprint("n", n%2)}
}

func definitionOf(key model.ServiceKey, rnd *rand.Rand) *model.Definition {
	d := &model.Definition{Key: key}
	for _, n := range []uint16{80, 90, 100} {
		if rnd.IntN(2) == 0 {
			d.Ports = append(d.Ports, model.Port{Number: n})
		}
	}
	return d
}

// TestStore applies thousands of random deltas, so that logs are compacted and
// tombstones forgotten, and compares what readers are told with full snapshots.
func TestStore(t *testing.T) {
	for _, size := range []struct{ services, tombstones, rounds int }{{6, 2, 4000}, {40, 5, 3000}, {400, 1000, 300}} {
		rnd := rand.New(rand.NewPCG(uint64(size.services), 1))
		store := shards.NewStore(size.tombstones)
		live := map[model.ServiceKey]*model.Definition{}
		changed, defined := map[model.ServiceKey]uint64{}, map[model.ServiceKey]uint64{}
		past := []record{{store.Load(), nil}}
		for range size.rounds {
			var d model.Delta
			for _, n := range slices.Sorted(slices.Values(rnd.Perm(size.services)[:1+rnd.IntN(5)])) {
				key := keyOf(n)
				s := model.ServiceDelta{Key: key, Push: model.ServicePush, Definition: live[key]}
				switch what := rnd.IntN(4); {
				case live[key] != nil && what == 0:
					s.Definition = nil
				case live[key] != nil && what < 3:
					s.Push = model.EndpointsPush
				default:
					s.Definition = definitionOf(key, rnd)
				}
				if live[key] = s.Definition; s.Definition == nil {
					delete(live, key)
				}
				d.Services = append(d.Services, s)
			}
			slices.SortFunc(d.Services, func(a, b model.ServiceDelta) int { return a.Key.Compare(b.Key) })
			snap := store.Apply(d)
			for _, s := range d.Services {
				changed[s.Key] = snap.Revision
				if s.Push == model.ServicePush {
					defined[s.Key] = snap.Revision
				}
			}
			checkSnapshot(t, snap, live, size.services)
			old := past[rnd.IntN(len(past))]
			if !maps.Equal(contents(old.snap), old.all) && len(old.all) > 0 {
				t.Fatalf("snapshot %d changed", old.snap.Revision)
			}
			checkSince(t, old, snap, changed, defined)
			if rnd.IntN(5) == 0 || len(past) < 10 {
				past = append(past, record{snap, contents(snap)})
			}
			if len(past) > 60 {
				past = slices.Delete(past, 1+rnd.IntN(30), 32)
			}
		}
		if size.tombstones < 10 && store.Load().Floor == 0 {
			t.Fatal("no tombstone was forgotten")
		}
	}
}

func checkSnapshot(t *testing.T, snap *shards.Snapshot, live map[model.ServiceKey]*model.Definition, services int) {
	t.Helper()
	all := contents(snap)
	if len(all) != len(live) || snap.Len() != len(live) {
		t.Fatalf("%d services, %d by Len, want %d", len(all), snap.Len(), len(live))
	}
	var last model.ServiceKey
	for svc := range snap.Services() {
		if svc.Key.Compare(last) <= 0 {
			t.Fatal("not in order")
		}
		last = svc.Key
	}
	for n := range services {
		key := keyOf(n)
		svc := snap.Service(key)
		if svc != all[key] || svc != nil && svc.Definition != live[key] || (svc == nil) != (live[key] == nil) {
			t.Fatalf("%v is %v, want %v", key, svc, live[key])
		}
		if n%2 == 0 {
			var want []*shards.Service
			for _, k := range []model.ServiceKey{key, keyOf(n + 1)} {
				if all[k] != nil {
					want = append(want, all[k])
				}
			}
			if got := slices.Collect(snap.Host(key.Host)); !slices.Equal(got, want) {
				t.Fatalf("host %s: %v, want %v", key.Host, got, want)
			}
		}
	}
}

func checkSince(t *testing.T, old record, snap *shards.Snapshot, changed, defined map[model.ServiceKey]uint64) {
	t.Helper()
	after := old.snap.Revision
	if after < snap.Floor {
		return
	}
	news := map[model.ServiceKey]*shards.Service{}
	for _, c := range []struct {
		told []*shards.Service
		last map[model.ServiceKey]uint64
		rev  func(*shards.Service) uint64
	}{
		{slices.Collect(snap.Since(after)), changed, func(s *shards.Service) uint64 { return s.Revision }},
		{slices.Collect(snap.DefinitionsSince(after)), defined, func(s *shards.Service) uint64 { return s.DefinitionRevision }},
	} {
		var want, got []string
		for key, rev := range c.last {
			if rev > after {
				want = append(want, fmt.Sprint(key, rev))
			}
		}
		for _, svc := range c.told {
			news[svc.Key] = svc
			got = append(got, fmt.Sprint(svc.Key, c.rev(svc)))
			if now := snap.Service(svc.Key); now != svc && (now != nil || svc.Definition != nil) {
				t.Fatalf("%v is not the newest", svc.Key)
			}
		}
		if !slices.IsSortedFunc(c.told, func(a, b *shards.Service) int { return int(c.rev(a)) - int(c.rev(b)) }) {
			t.Fatal("not oldest first")
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("since %d of %d:\n%v, want\n%v", after, snap.Revision, got, want)
		}
	}
	for key, was := range old.all {
		is := snap.Service(key)
		if is == nil {
			is = news[key]
		}
		for _, p := range was.Definition.Ports {
			if is.Definition != nil {
				if _, stays := is.Definition.Port(p.Number); stays {
					continue
				}
			}
			if !slices.ContainsFunc(is.RemovedPorts, func(r shards.RemovedPort) bool { return r.Number == p.Number && r.Revision > after }) {
				t.Fatalf("%v: port %d went after %d, removed ports are %v", key, p.Number, after, is.RemovedPorts)
			}
		}
	}
}

// Readers need no lock (run with -race).
func TestStoreIsReadWhileWritten(t *testing.T) {
	store := shards.NewStore(3)
	rnd := rand.New(rand.NewPCG(1, 1))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			cursor := uint64(0)
			for {
				snap := store.Load()
				if snap.Revision < cursor {
					t.Error("revisions go back")
				}
				for svc := range snap.Since(cursor) {
					if svc.Revision > snap.Revision || svc.Definition != nil && svc != snap.Service(svc.Key) {
						t.Errorf("revision %d has %v of %d", snap.Revision, svc.Key, svc.Revision)
					}
				}
				cursor = snap.Revision
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	live := map[int]bool{}
	for range 3000 {
		n := rnd.IntN(20)
		d := model.ServiceDelta{Key: keyOf(n), Push: model.ServicePush}
		if live[n] = !live[n]; live[n] {
			d.Definition = &model.Definition{Key: d.Key}
		}
		store.Apply(model.Delta{Services: []model.ServiceDelta{d}})
	}
	close(done)
	wg.Wait()
}
