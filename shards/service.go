package shards

import (
	"iter"

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
// slice, served or not. Among served duplicates of one address, port and network
// the first one wins: Kubernetes before other providers, then by cluster, then by
// slice; pods come before WorkloadEntries. The others are shadowed and take over
// once the first is gone.
func (s *Service) Candidates(port model.Port) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		var seen map[place]struct{}
		if n, slices := s.size(); slices > 1 {
			seen = make(map[place]struct{}, n)
		}
		for _, entries := range [...]bool{false, true} {
			for _, shard := range s.Shards {
				for _, slice := range shard.Slices {
					number, ok := slice.Port(port.Name)
					if !ok || selected(slice) != entries {
						continue
					}
					for i := range slice.Endpoints {
						e := &slice.Endpoints[i]
						c := Candidate{Shard: shard.Key, Slice: slice, Endpoint: e, Port: number}
						if seen != nil && e.Flags.Served() {
							p := place{e.Addr, number, network(e)}
							if _, c.Shadowed = seen[p]; !c.Shadowed {
								seen[p] = struct{}{}
							}
						}
						if !yield(c) {
							return
						}
					}
				}
			}
		}
	}
}

// selected reports whether the slice was made by selecting WorkloadEntries.
func selected(s *model.Slice) bool {
	if len(s.Endpoints) == 0 {
		return false
	}
	w := s.Endpoints[0].Workload
	return w != nil && w.Identity != nil && w.Identity.Kind == model.WorkloadEntry
}

func network(e *model.Endpoint) string {
	if e.Workload == nil || e.Workload.Placement == nil {
		return ""
	}
	return e.Workload.Placement.Network
}

func (s *Service) size() (endpoints, slices int) {
	for _, shard := range s.Shards {
		for _, slice := range shard.Slices {
			endpoints += len(slice.Endpoints)
			slices++
		}
	}
	return endpoints, slices
}
