package shards

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"

	"tributary/model"
)

// Service is one service as of the revision of its last change. It is
// immutable, so its pointer is a key for whatever was computed from it.
type Service struct {
	Key        model.ServiceKey
	Definition *model.Definition // nil: the service is gone
	Shards     []model.Shard     // sorted by key; empty shards are left out

	Revision           uint64 // of the last change
	DefinitionRevision uint64 // of the last change that was more than endpoints

	// RemovedPorts lists ports that the service had and has no more: what a
	// client that saw an older revision must be told to forget. Sorted by number.
	RemovedPorts []RemovedPort
	// Withdrawn lists to whom the service was shown and is no more, each
	// visibility once: who saw an older revision must be told to forget it.
	Withdrawn []Withdrawal
}

// RemovedPort is a port that went at a revision.
type RemovedPort struct {
	Number   uint16
	Revision uint64
}

// Withdrawal says that a service was shown in this way until a revision.
type Withdrawal struct {
	From     model.Visibility
	Revision uint64
}

// ShownSince reports whether clients of a namespace are shown the service, or
// were after a revision.
func (s *Service) ShownSince(revision uint64, namespace string) bool {
	return s.shownSince(revision, func(v model.Visibility) bool { return v.To(namespace) })
}

// ShownToAllSince is ShownSince for every client.
func (s *Service) ShownToAllSince(revision uint64) bool {
	return s.shownSince(revision, func(v model.Visibility) bool { return v == model.Everywhere })
}

func (s *Service) shownSince(revision uint64, to func(model.Visibility) bool) bool {
	return s.Definition != nil && to(s.Definition.Visibility()) ||
		slices.ContainsFunc(s.Withdrawn, func(w Withdrawal) bool { return w.Revision > revision && to(w.From) })
}

// Candidate is an endpoint of a service port and where it comes from.
type Candidate struct {
	service *Service

	Shard    model.ShardKey
	Slice    *model.Slice
	Endpoint *model.Endpoint
	Port     uint16 // target port
	// Shadowed tells that another candidate is served in this one's place: in one
	// view an endpoint appears once.
	Shadowed bool
}

// Served reports whether clients are given the endpoint.
func (c Candidate) Served() bool { return c.Endpoint.Flags.Served() && !c.Shadowed }

// Place is where at most one endpoint is served: an address, a port and a
// network. The addresses of a workload with several count as one.
type Place struct {
	addr    model.Addr
	port    uint16
	network string
}

// Candidates yields every endpoint of a port of s, shard by shard and slice by
// slice, served or not. Of those that could be served in one place one is: pods
// come before WorkloadEntries, then Kubernetes before other providers, then the
// order of clusters, of workload names, IPv4 before IPv6, then the order of
// slices. The others are shadowed and take over once the first is gone.
func (s *Service) Candidates(port model.Port) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		winners := s.winners(port)
		for c := range s.candidates(port) {
			if winners != nil && c.Endpoint.Flags.Served() {
				c.Shadowed = winners[c.Place()].Endpoint != c.Endpoint
			}
			if !yield(c) {
				return
			}
		}
	}
}

func (s *Service) candidates(port model.Port) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		for i := range s.Shards {
			shard := &s.Shards[i]
			for _, slice := range shard.Slices {
				number, ok := slice.Port(port.Name)
				if !ok {
					continue
				}
				for i := range slice.Endpoints {
					if !yield(Candidate{service: s, Shard: shard.Key, Slice: slice, Endpoint: &slice.Endpoints[i], Port: number}) {
						return
					}
				}
			}
		}
	}
}

// winners returns which endpoint is served at each place; nil if no two of a
// port share one, as is nearly always so.
func (s *Service) winners(port model.Port) map[Place]Candidate {
	if !s.repeats(port) {
		return nil
	}
	winners := map[Place]Candidate{}
	for c := range s.candidates(port) {
		if !c.Endpoint.Flags.Served() {
			continue
		}
		p := c.Place()
		if w, taken := winners[p]; !taken || c.before(w) {
			winners[p] = c
		}
	}
	return winners
}

var seed = maphash.MakeSeed()

// repeats reports whether two endpoints that could be served may have one
// place: one address and port, addresses of both families, which a workload may
// have, or a workload with several addresses, all of which are one place.
func (s *Service) repeats(port model.Port) bool {
	if s.severalAddresses() {
		return true
	}
	n, count := s.size()
	if count == 1 {
		return s.repeatsNeighbour()
	}
	var four, six bool
	seen := make([]uint64, 1<<bits.Len(uint(2*n))) // open addressing, at most half full
	for c := range s.candidates(port) {
		if !c.Endpoint.Flags.Served() {
			continue
		}
		is4 := c.Endpoint.Addr.Is4()
		if four, six = four || is4, six || !is4; four && six {
			return true
		}
		h := maphash.Bytes(seed, c.Endpoint.Addr[:]) + uint64(c.Port)*0x9e3779b97f4a7c15 | 1
		i := h >> 1 & uint64(len(seen)-1)
		for ; seen[i] != 0; i = (i + 1) & uint64(len(seen)-1) {
			if seen[i] == h {
				return true // or two of one hash: then winners finds that there is nothing to do
			}
		}
		seen[i] = h
	}
	return false
}

// severalAddresses reports whether a workload has more than one. It reads only
// those of slices that may have such a one.
func (s *Service) severalAddresses() bool {
	for i := range s.Shards {
		for _, slice := range s.Shards[i].Slices {
			if !slice.OneAddress && slices.ContainsFunc(slice.Endpoints, func(e model.Endpoint) bool { return e.Workload != nil && !e.Workload.OneAddress() }) {
				return true
			}
		}
	}
	return false
}

// repeatsNeighbour is repeats for one slice, whose endpoints are in order of
// their addresses.
func (s *Service) repeatsNeighbour() bool {
	for i := range s.Shards {
		for _, slice := range s.Shards[i].Slices {
			for j := 1; j < len(slice.Endpoints); j++ {
				if slice.Endpoints[j].Addr == slice.Endpoints[j-1].Addr {
					return true
				}
			}
		}
	}
	return false
}

// before reports whether c is served rather than w, which comes before it in
// the order of shards and slices.
func (c Candidate) before(w Candidate) bool {
	kind, name := who(c.Endpoint)
	otherKind, otherName := who(w.Endpoint)
	if kind != otherKind || c.Shard != w.Shard || name != otherName {
		return kind < otherKind || kind == otherKind && c.Shard == w.Shard && name < otherName
	}
	return c.Endpoint.Addr.Is4() && !w.Endpoint.Addr.Is4()
}

func who(e *model.Endpoint) (model.WorkloadKind, string) {
	switch w := e.Workload; {
	case w == nil:
		return model.Pod, ""
	case w.Identity == nil:
		return model.Pod, w.Name
	default:
		return w.Identity.Kind, w.Name
	}
}

// Place returns where c is, or would be, served.
func (c Candidate) Place() Place {
	p := Place{c.Endpoint.Addr, c.Port, network(c.Endpoint)}
	if w := c.Endpoint.Workload; w != nil && w.Details != nil && slices.Contains(w.Details.More, p.addr) {
		p.addr = w.Addr
	}
	return p
}

// Additional returns the further addresses of an endpoint: a service with both
// families is one endpoint a pod, at its IPv4 address, and the others with it.
func (c Candidate) Additional() []model.Addr {
	w, a := c.Endpoint.Workload, c.Endpoint.Addr
	if w == nil || w.Details == nil || len(w.Details.More) == 0 || !a.Is4() || c.Shard.Provider != model.Kubernetes || !c.service.Definition.DualStack(c.Shard.Cluster) {
		return nil
	}
	all := slices.Concat([]model.Addr{w.Addr}, w.Details.More)
	if !slices.Contains(all, a) {
		return nil // the pod has another address by now
	}
	// A source may name an address again, or none.
	more := all[:0]
	for _, o := range all {
		if o != a && !o.IsZero() && !slices.Contains(more, o) {
			more = append(more, o)
		}
	}
	return more
}

func network(e *model.Endpoint) string {
	if e.Workload == nil || e.Workload.Placement == nil {
		return ""
	}
	return e.Workload.Placement.Network
}

func (s *Service) size() (endpoints, count int) {
	for i := range s.Shards {
		for _, slice := range s.Shards[i].Slices {
			endpoints += len(slice.Endpoints)
			count++
		}
	}
	return endpoints, count
}
