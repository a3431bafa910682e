package shards

import (
	"iter"

	"tributary/internal/table"
	"tributary/model"
)

// Snapshot is the whole registry at one revision. It never changes.
type Snapshot struct {
	Revision uint64
	// DefinitionRevision is the revision of the last change that was more than
	// endpoints.
	DefinitionRevision uint64
	// Floor is the revision up to which removals are no longer remembered: a
	// reader whose cursor is older must compare everything.
	Floor uint64

	services    table.Frozen[*Service] // by key
	changes     table.Frozen[*Service] // by Revision, then key; with tombstones
	definitions table.Frozen[*Service] // by DefinitionRevision, then key; with tombstones
	synced      map[model.ShardKey]model.Synced
}

// Service returns the service with that key; nil if there is none.
func (s *Snapshot) Service(key model.ServiceKey) *Service {
	svc, _ := s.services.Get(&Service{Key: key})
	return svc
}

// Host yields the services of a host in order of their namespaces.
func (s *Snapshot) Host(host string) iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for svc := range s.services.From(&Service{Key: model.ServiceKey{Host: host}}) {
			if svc.Key.Host != host || !yield(svc) {
				return
			}
		}
	}
}

// Services yields every service by key.
func (s *Snapshot) Services() iter.Seq[*Service] { return s.services.All() }

// Len returns the number of services.
func (s *Snapshot) Len() int { return s.services.Len() }

// Since yields the services that changed after a revision, oldest change first;
// those that went have no Definition.
func (s *Snapshot) Since(revision uint64) iter.Seq[*Service] {
	return s.changes.From(&Service{Revision: revision + 1})
}

// DefinitionsSince is Since for changes that were more than endpoints.
func (s *Snapshot) DefinitionsSince(revision uint64) iter.Seq[*Service] {
	return s.definitions.From(&Service{DefinitionRevision: revision + 1})
}

// Synced returns what each complete source held when it became complete.
func (s *Snapshot) Synced(source model.ShardKey) (model.Synced, bool) {
	n, ok := s.synced[source]
	return n, ok
}
