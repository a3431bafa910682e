package shards

import (
	"iter"
	"slices"
	"sort"

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

	index       table.Frozen[*slot]         // by key
	services    table.FrozenPages[*Service] // by slot; with tombstones
	changes     []change                    // by Revision, then key
	definitions []change                    // by DefinitionRevision, then key
	aliases     table.Frozen[alias]
	ports       table.Frozen[portChange]
	synced      map[model.ShardKey]model.Synced
}

// Service returns the service with that key; nil if there is none.
func (s *Snapshot) Service(key model.ServiceKey) *Service {
	p, found := s.index.Get(&slot{key: key})
	if !found {
		return nil
	}
	return s.services.Get(p.id)
}

// Host yields the services of a host in order of their namespaces.
func (s *Snapshot) Host(host string) iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for p := range s.index.From(&slot{key: model.ServiceKey{Host: host}}) {
			if p.key.Host != host || !yield(s.services.Get(p.id)) {
				return
			}
		}
	}
}

// Services yields every service by key.
func (s *Snapshot) Services() iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for p := range s.index.All() {
			if !yield(s.services.Get(p.id)) {
				return
			}
		}
	}
}

// Aliases returns the services that are other names of a host, of it or of
// another alias of it, sorted by key. Aliases that lead in a circle stand for
// nothing, and end here.
func (s *Snapshot) Aliases(host string) []*Service {
	if s.aliases.Len() == 0 {
		return nil
	}
	var found []*Service
	hosts, seen := []string{host}, map[string]bool{host: true}
	for i := 0; i < len(hosts); i++ {
		for a := range s.aliases.From(alias{of: hosts[i]}) {
			if a.of != hosts[i] {
				break
			}
			if a.key.Host != host {
				found = append(found, s.Service(a.key))
			}
			if !seen[a.key.Host] {
				seen[a.key.Host] = true
				hosts = append(hosts, a.key.Host)
			}
		}
	}
	slices.SortFunc(found, func(a, b *Service) int { return a.Key.Compare(b.Key) })
	return found
}

// PortRevision returns the revision at which a service that has a port, or an
// alias of such a one, was last defined; 0 if none ever was.
func (s *Snapshot) PortRevision(port uint16) uint64 {
	c, _ := s.ports.Get(portChange{port: port})
	return c.revision
}

// PortsSince yields the ports whose PortRevision is greater than a revision,
// in ascending order. There are far fewer ports than services: all are looked at.
func (s *Snapshot) PortsSince(revision uint64) iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for c := range s.ports.All() {
			if c.revision > revision && !yield(c.port) {
				return
			}
		}
	}
}

// Len returns the number of services.
func (s *Snapshot) Len() int { return s.index.Len() }

// Since yields the services that changed after a revision, oldest change first;
// those that went have no Definition.
func (s *Snapshot) Since(revision uint64) iter.Seq[*Service] {
	return s.since(s.changes, revision, func(svc *Service) uint64 { return svc.Revision })
}

// DefinitionsSince is Since for changes that were more than endpoints.
func (s *Snapshot) DefinitionsSince(revision uint64) iter.Seq[*Service] {
	return s.since(s.definitions, revision, func(svc *Service) uint64 { return svc.DefinitionRevision })
}

// since yields what a log has after a revision, each service where it changed
// last: a change that a later one has followed is passed over.
func (s *Snapshot) since(log []change, revision uint64, last func(*Service) uint64) iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		first := sort.Search(len(log), func(i int) bool { return log[i].revision > revision })
		for _, c := range log[first:] {
			if svc := s.services.Get(c.id); svc != nil && last(svc) == c.revision && !yield(svc) {
				return
			}
		}
	}
}

// Synced returns what each complete source held when it became complete.
func (s *Snapshot) Synced(source model.ShardKey) (model.Synced, bool) {
	n, ok := s.synced[source]
	return n, ok
}
