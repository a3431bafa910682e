package aggregate_test

import (
	"slices"

	"pgregory.net/rapid"

	"tributary/model"
	"tributary/shards"
)

// laws checks what must hold of every Delta and of every snapshot, by comparing
// full snapshots.
type laws struct {
	meanings map[model.ServiceKey]meaning
	past     []*shards.Snapshot
	changed  map[model.ServiceKey]uint64 // revision of the last change of a service
	defined  map[model.ServiceKey]uint64 // of the last change of its definition
}

type meaning struct{ definition, shards string }

func newLaws() *laws {
	return &laws{meanings: map[model.ServiceKey]meaning{}, changed: map[model.ServiceKey]uint64{}, defined: map[model.ServiceKey]uint64{}}
}

func (l *laws) check(t rapid.TB, d model.Delta, snap *shards.Snapshot) {
	t.Helper()
	if !slices.IsSortedFunc(d.Services, func(a, b model.ServiceDelta) int { return a.Key.Compare(b.Key) }) {
		t.Fatalf("services of the delta are not sorted")
	}
	for _, s := range d.Services {
		was, existed := l.meanings[s.Key]
		if !existed {
			was.definition = "none"
		}
		is := meaning{definitionText(s.Definition), shardsText(s.Shards)}
		want := model.NoPush
		switch {
		case was.definition != is.definition:
			want = model.ServicePush
			l.defined[s.Key] = snap.Revision
		case was.shards != is.shards:
			want = model.EndpointsPush
		}
		if s.Push != want || want == model.NoPush {
			t.Fatalf("push %v of %v, want %v:\nwas %v\nis  %v", s.Push, s.Key, want, was, is)
		}
		l.changed[s.Key] = snap.Revision
		if l.meanings[s.Key] = is; s.Definition == nil {
			delete(l.meanings, s.Key)
			if len(s.Shards) > 0 {
				t.Fatalf("%v went and has shards", s.Key)
			}
		}
	}
	// The snapshot is the last one with the delta applied, and nothing else.
	count := 0
	for svc := range snap.Services() {
		count++
		if is := (meaning{definitionText(svc.Definition), shardsText(svc.Shards)}); is != l.meanings[svc.Key] {
			t.Fatalf("%v is not what the deltas say:\n%v\n%v", svc.Key, is, l.meanings[svc.Key])
		}
		if svc != snap.Service(svc.Key) {
			t.Fatalf("Service(%v) is another one", svc.Key)
		}
		for shard := range slices.Values(svc.Shards) {
			for _, s := range shard.Slices {
				if len(s.Endpoints) == 0 || !slices.IsSortedFunc(s.Endpoints, func(a, b model.Endpoint) int { return a.Addr.Compare(b.Addr) }) {
					t.Fatalf("%v: slice %v of %v is empty or not sorted", svc.Key, s.Object, shard.Key)
				}
			}
		}
	}
	if count != len(l.meanings) || count != snap.Len() {
		t.Fatalf("%d services, %d by Len, want %d", count, snap.Len(), len(l.meanings))
	}
	if n := len(l.past); n > 12 {
		l.past = slices.Delete(l.past, 1, 2)
	}
	l.past = append(l.past, snap)
	for _, old := range l.past {
		l.since(t, old, snap)
	}
}

// since checks what a reader is told that saw snapshot old.
func (l *laws) since(t rapid.TB, old, snap *shards.Snapshot) {
	if old.Revision < snap.Floor {
		return // it compares everything
	}
	told := func(seq func(func(*shards.Service) bool), last map[model.ServiceKey]uint64) {
		got := map[model.ServiceKey]bool{}
		for svc := range seq {
			if got[svc.Key] || last[svc.Key] <= old.Revision {
				t.Fatalf("since %d: %v told twice or in vain", old.Revision, svc.Key)
			}
			got[svc.Key] = true
			if now := snap.Service(svc.Key); now != svc && (now != nil || svc.Definition != nil) {
				t.Fatalf("since %d: %v is not the newest", old.Revision, svc.Key)
			}
		}
		for key, rev := range last {
			if rev > old.Revision && !got[key] {
				t.Fatalf("since %d: %v changed at %d and is not told (floor %d)", old.Revision, key, rev, snap.Floor)
			}
		}
	}
	told(snap.Since(old.Revision), l.changed)
	told(snap.DefinitionsSince(old.Revision), l.defined)
	for was := range old.Services() {
		is := snap.Service(was.Key)
		if is == nil {
			for svc := range snap.DefinitionsSince(old.Revision) {
				if svc.Key == was.Key {
					is = svc
				}
			}
		}
		for _, p := range was.Definition.Ports {
			if is.Definition != nil {
				if _, stays := is.Definition.Port(p.Number); stays {
					continue
				}
			}
			if !slices.ContainsFunc(is.RemovedPorts, func(r shards.RemovedPort) bool { return r.Number == p.Number && r.Revision > old.Revision }) {
				t.Fatalf("%v: port %d went after revision %d and is not among %v", was.Key, p.Number, old.Revision, is.RemovedPorts)
			}
		}
	}
}
