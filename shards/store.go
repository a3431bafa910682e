package shards

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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

	// Owned by the writer. Each service has a slot, which it keeps while its
	// removal is remembered; a change writes there and compares no keys.
	tombstones  int // how many may be kept
	revision    uint64
	definition  uint64 // revision of the last change that was more than endpoints
	floor       uint64
	slots       map[model.ServiceKey]uint32
	unused      []uint32 // slots that no service has
	index       *table.Tree[*slot]
	services    table.Pages[*Service]
	changes     log
	definitions log
	graves      *table.Tree[*Service] // tombstones, by Revision
	aliases     *table.Tree[alias]    // by what they stand for
	ports       *table.Tree[portChange]
	synced      map[model.ShardKey]model.Synced
}

// slot is where a service is.
type slot struct {
	key model.ServiceKey
	id  uint32
}

// NewStore returns an empty store that remembers that many removed services.
func NewStore(tombstones int) *Store {
	s := &Store{
		tombstones: tombstones,
		slots:      map[model.ServiceKey]uint32{},
		index:      table.NewTree(func(a, b *slot) bool { return a.key.Compare(b.key) < 0 }),
		graves: table.NewTree(func(a, b *Service) bool {
			return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.Key.Compare(b.Key)) < 0
		}),
		aliases: table.NewTree(func(a, b alias) bool { return cmp.Or(strings.Compare(a.of, b.of), a.key.Compare(b.key)) < 0 }),
		ports:   table.NewTree(func(a, b portChange) bool { return a.port < b.port }),
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
	for s.graves.Len() > s.tombstones {
		oldest, _ := s.graves.Min()
		s.floor = oldest.Revision
		s.forget(oldest)
	}
	s.changes.compact(len(s.slots), func(c change) bool {
		svc := s.services.Get(c.id)
		return svc != nil && svc.Revision == c.revision
	})
	s.definitions.compact(len(s.slots), func(c change) bool {
		svc := s.services.Get(c.id)
		return svc != nil && svc.DefinitionRevision == c.revision
	})
	if len(d.Synced) > 0 || len(d.Gone) > 0 {
		s.synced = maps.Clone(s.synced)
		for _, k := range d.Gone {
			delete(s.synced, k)
		}
		for _, n := range d.Synced { // perhaps of a source that went and came back
			s.synced[n.Source] = n
		}
	}
	return s.publish()
}

func (s *Store) publish() *Snapshot {
	snap := &Snapshot{
		Revision: s.revision, DefinitionRevision: s.definition, Floor: s.floor, synced: s.synced,
		index: s.index.Freeze(), services: s.services.Freeze(), changes: s.changes, definitions: s.definitions,
		aliases: s.aliases.Freeze(), ports: s.ports.Freeze(),
	}
	s.current.Store(snap)
	return snap
}

func (s *Store) set(d *model.ServiceDelta) {
	svc := &Service{Key: d.Key, Definition: d.Definition, Shards: d.Shards, Revision: s.revision, DefinitionRevision: s.revision}
	id, known := s.slots[d.Key]
	var old *Service
	if known {
		old = s.services.Get(id)
	} else {
		id = s.slot(d.Key)
	}
	existed := known && old.Definition != nil
	if existed && d.Push == model.EndpointsPush {
		svc.DefinitionRevision = old.DefinitionRevision
		svc.RemovedPorts, svc.Withdrawn = old.RemovedPorts, old.Withdrawn
	} else {
		s.definition = s.revision
		svc.RemovedPorts = removedPorts(old, d.Definition, s.revision)
		svc.Withdrawn = withdrawn(old, d.Definition, s.revision)
		s.markPorts(old)
		s.setAlias(old, svc)
		s.definitions.add(change{s.revision, id})
	}
	s.changes.add(change{s.revision, id})
	s.services.Set(id, svc)
	if known && !existed {
		s.graves.Delete(old)
	}
	switch {
	case d.Definition == nil:
		if existed {
			s.index.Delete(&slot{key: d.Key})
		}
		s.graves.Set(svc)
	case !existed:
		s.index.Set(&slot{d.Key, id})
	}
	if svc.DefinitionRevision == s.revision {
		s.markPorts(svc)
	}
}

// slot finds a slot for a service that has none.
func (s *Store) slot(key model.ServiceKey) (id uint32) {
	if n := len(s.unused); n > 0 {
		id, s.unused = s.unused[n-1], s.unused[:n-1]
	} else {
		id = uint32(len(s.slots))
	}
	s.slots[key] = id
	return id
}

// forget gives the slot of a removed service to others.
func (s *Store) forget(grave *Service) {
	id := s.slots[grave.Key]
	s.graves.Delete(grave)
	s.services.Set(id, nil)
	delete(s.slots, grave.Key)
	s.unused = append(s.unused, id)
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

// mostWithdrawn bounds what is remembered of a service whose visibility changes
// all the time: past that, everybody is told.
const mostWithdrawn = 8

// withdrawn returns how old was shown, now or before, and the new definition is
// not.
func withdrawn(old *Service, definition *model.Definition, revision uint64) []Withdrawal {
	if old == nil {
		return nil
	}
	if old.Definition == nil || definition != nil && old.Definition.Visibility() == definition.Visibility() {
		return old.Withdrawn
	}
	was := Withdrawal{old.Definition.Visibility(), revision}
	if len(old.Withdrawn) >= mostWithdrawn {
		return []Withdrawal{{model.Everywhere, revision}}
	}
	list := []Withdrawal{was}
	for _, w := range old.Withdrawn {
		if w.From != was.From {
			list = append(list, w)
		}
	}
	return list
}

// alias is a service that is another name of a host.
type alias struct {
	of  string
	key model.ServiceKey
}

func (s *Store) setAlias(old, svc *Service) {
	was, is := "", ""
	if old != nil && old.Definition != nil {
		was = old.Definition.AliasOf()
	}
	if svc.Definition != nil {
		is = svc.Definition.AliasOf()
	}
	if was == is {
		return
	}
	if was != "" {
		s.aliases.Delete(alias{was, svc.Key})
	}
	if is != "" {
		s.aliases.Set(alias{is, svc.Key})
	}
}

// portChange is the revision at which a service that has a port was last
// defined, or an alias of such a one.
type portChange struct {
	port     uint16
	revision uint64
}

// markPorts notes a definition, as it was or as it is. An alias concerns the
// ports of what it stands for. Several links of a chain may change in one delta:
// whichever is cut first, or tied last, sees the rest of the chain.
func (s *Store) markPorts(svc *Service) {
	if svc == nil || svc.Definition == nil {
		return
	}
	for _, p := range svc.Definition.Ports {
		s.ports.Set(portChange{p.Number, s.revision})
	}
	seen := map[string]bool{}
	for hosts := []string{svc.Definition.AliasOf()}; len(hosts) > 0; hosts = hosts[1:] {
		host := hosts[0]
		if host == "" || seen[host] {
			continue
		}
		seen[host] = true
		for p := range s.index.Freeze().From(&slot{key: model.ServiceKey{Host: host}}) {
			if p.key.Host != host {
				break
			}
			d := s.services.Get(p.id).Definition
			for _, p := range d.Ports {
				s.ports.Set(portChange{p.Number, s.revision})
			}
			hosts = append(hosts, d.AliasOf())
		}
	}
}

// change says that the service in a slot changed at a revision. Whether it is
// the last change of that service, the service itself tells.
type change struct {
	revision uint64
	id       uint32
}

// log is a list of changes, oldest first. Snapshots hold the part of it that
// was there when they were made, which is never written again.
type log []change

func (l *log) add(c change) { *l = append(*l, c) }

// compact makes a new log of the changes that are the last of their services,
// once there are as many others.
func (l *log) compact(services int, last func(change) bool) {
	if len(*l) < 2*services+1024 {
		return
	}
	kept := make(log, 0, 2*services+1024)
	for _, c := range *l {
		if last(c) {
			kept = append(kept, c)
		}
	}
	*l = kept
}
