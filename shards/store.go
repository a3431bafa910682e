package shards

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"tributary/internal/table"
	"tributary/model"
)

// DefaultTombstones is how many removed services are remembered, so that a
// client that was away for a while is told of the removal alone. Past that the
// oldest are forgotten and Snapshot.Floor rises.
const DefaultTombstones = 65536

// Store holds the newest snapshot. One goroutine writes it.
type Store struct {
	current atomic.Pointer[Snapshot]

	// Owned by the writer.
	tombstones  int // how many may be kept
	revision    uint64
	definition  uint64 // revision of the last change that was more than endpoints
	floor       uint64
	services    *table.Tree[*Service]
	changes     *table.Tree[*Service]
	definitions *table.Tree[*Service]
	removed     *table.Tree[*Service] // tombstones, by Revision
	graves      map[model.ServiceKey]*Service
	synced      map[model.ShardKey]model.Synced
}

// NewStore returns an empty store that remembers that many removed services.
func NewStore(tombstones int) *Store {
	byRevision := func(a, b *Service) bool {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.Key.Compare(b.Key)) < 0
	}
	s := &Store{
		tombstones: tombstones,
		services:   table.NewTree(func(a, b *Service) bool { return a.Key.Compare(b.Key) < 0 }),
		changes:    table.NewTree(byRevision),
		definitions: table.NewTree(func(a, b *Service) bool {
			return cmp.Or(cmp.Compare(a.DefinitionRevision, b.DefinitionRevision), a.Key.Compare(b.Key)) < 0
		}),
		removed: table.NewTree(byRevision),
		graves:  map[model.ServiceKey]*Service{},
		synced:  map[model.ShardKey]model.Synced{},
	}
	s.publish()
	return s
}

// Load returns the newest snapshot; it is never nil. Safe for concurrent use.
func (s *Store) Load() *Snapshot { return s.current.Load() }

// Apply publishes a delta as one new snapshot and returns it.
func (s *Store) Apply(d model.Delta) *Snapshot {
	s.revision++
	for i := range d.Services {
		s.set(&d.Services[i])
	}
	for s.removed.Len() > s.tombstones {
		oldest, _ := s.removed.Min()
		s.floor = oldest.Revision
		s.unbury(oldest)
	}
	if len(d.Synced) > 0 || len(d.Gone) > 0 {
		s.synced = maps.Clone(s.synced)
		for _, n := range d.Synced {
			s.synced[n.Source] = n
		}
		for _, k := range d.Gone {
			delete(s.synced, k)
		}
	}
	return s.publish()
}

func (s *Store) publish() *Snapshot {
	snap := &Snapshot{
		Revision: s.revision, DefinitionRevision: s.definition, Floor: s.floor, synced: s.synced,
		services: s.services.Freeze(), changes: s.changes.Freeze(), definitions: s.definitions.Freeze(),
	}
	s.current.Store(snap)
	return snap
}

func (s *Store) set(d *model.ServiceDelta) {
	svc := &Service{Key: d.Key, Definition: d.Definition, Shards: d.Shards, Revision: s.revision, DefinitionRevision: s.revision}
	old, existed := s.services.Get(svc)
	if !existed {
		if old = s.graves[d.Key]; old != nil {
			s.unbury(old)
		}
	} else {
		s.changes.Delete(old)
	}
	if existed && d.Push == model.EndpointsPush {
		svc.DefinitionRevision = old.DefinitionRevision
		svc.RemovedPorts = old.RemovedPorts
		s.definitions.Set(svc) // in place of old, which has the same place
	} else {
		if existed {
			s.definitions.Delete(old)
		}
		s.definition = s.revision
		svc.RemovedPorts = removedPorts(old, d.Definition, s.revision)
		s.definitions.Set(svc)
	}
	s.changes.Set(svc)
	if d.Definition != nil {
		s.services.Set(svc)
		return
	}
	s.services.Delete(svc)
	s.removed.Set(svc)
	s.graves[d.Key] = svc
}

// unbury forgets the tombstone of a removed service.
func (s *Store) unbury(grave *Service) {
	s.removed.Delete(grave)
	s.changes.Delete(grave)
	s.definitions.Delete(grave)
	delete(s.graves, grave.Key)
}

// removedPorts returns the ports that old had, now or before, and that the new
// definition has not.
func removedPorts(old *Service, definition *model.Definition, revision uint64) []RemovedPort {
	if old == nil {
		return nil
	}
	var removed []RemovedPort
	add := func(r RemovedPort) {
		if definition != nil {
			if _, back := definition.Port(r.Number); back {
				return
			}
		}
		if !slices.ContainsFunc(removed, func(o RemovedPort) bool { return o.Number == r.Number }) {
			removed = append(removed, r)
		}
	}
	if old.Definition != nil {
		for _, p := range old.Definition.Ports {
			add(RemovedPort{p.Number, revision})
		}
	}
	for _, r := range old.RemovedPorts {
		add(r)
	}
	slices.SortFunc(removed, func(a, b RemovedPort) int { return cmp.Compare(a.Number, b.Number) })
	return removed
}
