package shards

import (
	"hash/maphash"
	"iter"
	"math/bits"

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
}

// RemovedPort is a port that went at a revision.
type RemovedPort struct {
	Number   uint16
	Revision uint64
}

// Candidate is an endpoint of a service port and where it comes from.
type Candidate struct {
	Shard    model.ShardKey
	Slice    *model.Slice
	Endpoint *model.Endpoint
	Port     uint16 // target port
	// Shadowed tells that an earlier candidate has the same address, port and
	// network: in one view an endpoint appears once.
	Shadowed bool
}

// Served reports whether clients are given the endpoint.
func (c Candidate) Served() bool { return c.Endpoint.Flags.Served() && !c.Shadowed }

type place struct {
	addr    model.Addr
	port    uint16
	network string
}

// Candidates yields every endpoint of a port of s, shard by shard and slice by
// slice, served or not. Of those that could be served at one address, port and
// network one is: pods come before WorkloadEntries, then Kubernetes before other
// providers, then the order of clusters, of workload names, of slices. The others
// are shadowed and take over once the first is gone.
func (s *Service) Candidates(port model.Port) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		winners := s.winners(port)
		for c := range s.candidates(port) {
			if winners != nil && c.Endpoint.Flags.Served() {
				c.Shadowed = winners[c.place()].Endpoint != c.Endpoint
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
					if !yield(Candidate{Shard: shard.Key, Slice: slice, Endpoint: &slice.Endpoints[i], Port: number}) {
						return
					}
				}
			}
		}
	}
}

// winners returns which endpoint is served at each place; nil if no two of a
// port share one, as is nearly always so.
func (s *Service) winners(port model.Port) map[place]Candidate {
	if !s.repeats(port) {
		return nil
	}
	winners := map[place]Candidate{}
	for c := range s.candidates(port) {
		if !c.Endpoint.Flags.Served() {
			continue
		}
		p := c.place()
		if w, taken := winners[p]; !taken || c.before(w) {
			winners[p] = c
		}
	}
	return winners
}

var seed = maphash.MakeSeed()

// repeats reports whether two endpoints that could be served may have one
// address and port. It reads no workload: with thousands of endpoints their
// memory is far away.
func (s *Service) repeats(port model.Port) bool {
	n, slices := s.size()
	if slices == 1 {
		return s.repeatsNeighbour()
	}
	seen := make([]uint64, 1<<bits.Len(uint(2*n))) // open addressing, at most half full
	for c := range s.candidates(port) {
		if !c.Endpoint.Flags.Served() {
			continue
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
	return kind < otherKind || kind == otherKind && c.Shard == w.Shard && name < otherName
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

func (c Candidate) place() place { return place{c.Endpoint.Addr, c.Port, network(c.Endpoint)} }

func network(e *model.Endpoint) string {
	if e.Workload == nil || e.Workload.Placement == nil {
		return ""
	}
	return e.Workload.Placement.Network
}

func (s *Service) size() (endpoints, slices int) {
	for i := range s.Shards {
		for _, slice := range s.Shards[i].Slices {
			endpoints += len(slice.Endpoints)
			slices++
		}
	}
	return endpoints, slices
}
