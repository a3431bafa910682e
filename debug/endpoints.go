package debug

import (
	"cmp"
	"slices"
	"strings"

	"tributary/model"
	"tributary/shards"
)

// perCluster counts a service in every cluster that defines it or has endpoints
// for it, sorted by cluster.
func perCluster(svc *shards.Service) []clusterTally {
	var rows []clusterTally
	at := func(id model.ClusterID) *clusterTally {
		i, found := slices.BinarySearchFunc(rows, id, func(r clusterTally, id model.ClusterID) int { return cmp.Compare(r.cluster, id) })
		if !found {
			rows = slices.Insert(rows, i, clusterTally{cluster: id})
		}
		return &rows[i]
	}
	for _, source := range svc.Definition.Sources {
		at(source.Registry.Cluster).Services = 1
	}
	for _, shard := range svc.Shards {
		for _, slice := range shard.Slices {
			at(shard.Key.Cluster).Endpoints += len(slice.Endpoints)
		}
	}
	// A row counts once, however many ports it is served on.
	var seen map[*model.Endpoint]struct{}
	if len(svc.Definition.Ports) > 1 {
		seen = map[*model.Endpoint]struct{}{}
	}
	for _, port := range svc.Definition.Ports {
		for c := range svc.Candidates(port) {
			if !c.Served() {
				continue
			}
			if seen != nil {
				if _, again := seen[c.Endpoint]; again {
					continue
				}
				seen[c.Endpoint] = struct{}{}
			}
			at(c.Shard.Cluster).Served++
		}
	}
	return rows
}

// The states of an endpoint.
const (
	stateServed      = "served"
	stateHeld        = "held"
	stateNotReady    = "not ready"
	stateTerminating = "terminating"
	stateDrained     = "drained"
	stateShadowed    = "shadowed"
	stateUnmatched   = "unmatched"
)

// verdict is why one endpoint is served on one port, or is not.
type verdict struct {
	state, reason string
	winner        *shards.Candidate // who shadows it
}

func judge(c *shards.Candidate, winner *shards.Candidate) verdict {
	f := c.Endpoint.Flags
	switch {
	case f&model.EndpointMissing != 0 && c.Endpoint.Workload != nil && c.Endpoint.Workload.State == model.AnotherUID:
		return verdict{state: stateHeld, reason: "the pod of that name has another uid than its slice refers to"}
	case f&model.EndpointMissing != 0:
		return verdict{state: stateHeld, reason: "its pod is not known yet, so neither its labels nor its identity are"}
	case f&model.EndpointFinished != 0:
		return verdict{state: stateHeld, reason: "its pod has ended, and its address may belong to another one"}
	case f&model.EndpointReady == 0 && f&model.EndpointTerminating != 0 && f&model.EndpointServing != 0:
		return verdict{state: stateTerminating, reason: "it finishes what it has and gets nothing new"}
	case f&model.EndpointReady == 0 && f&model.EndpointTerminating != 0:
		return verdict{state: stateTerminating}
	case f&model.EndpointReady == 0:
		return verdict{state: stateNotReady, reason: "its slice says that it is not ready"}
	case f&model.EndpointDrained != 0:
		return verdict{state: stateDrained, reason: "its cluster is on its way out, and this part of it gets nothing new"}
	case c.Shadowed:
		return verdict{state: stateShadowed, reason: "another endpoint has the same address, port and network", winner: winner}
	case f&model.EndpointMoving != 0:
		return verdict{state: stateServed, reason: "moving: its slice dropped it, its pod is ready, another slice may take it"}
	}
	return verdict{state: stateServed}
}

// outcome is one endpoint with the ports on which it fares alike.
type outcome struct {
	verdict
	shard    model.ShardKey
	slice    *model.Slice
	endpoint *model.Endpoint
	ports    []EndpointPort
}

// outcomes returns every endpoint of a service in the order of its shards and
// slices, served or not; one that fares differently by port, once for each.
func outcomes(svc *shards.Service) []outcome {
	byRow := map[*model.Endpoint][]outcome{}
	for _, port := range svc.Definition.Ports {
		served := map[shards.Place]shards.Candidate{}
		candidates := slices.Collect(svc.Candidates(port))
		for _, c := range candidates {
			if c.Served() {
				served[c.Place()] = c
			}
		}
		for _, c := range candidates {
			var winner *shards.Candidate
			if c.Shadowed {
				w := served[c.Place()]
				winner = &w
			}
			v := judge(&c, winner)
			rows := byRow[c.Endpoint]
			i := slices.IndexFunc(rows, func(o outcome) bool { return o.alike(v) })
			if i < 0 {
				rows = append(rows, outcome{verdict: v, shard: c.Shard, slice: c.Slice, endpoint: c.Endpoint})
				i = len(rows) - 1
			}
			rows[i].ports = append(rows[i].ports, EndpointPort{Name: port.Name, Port: port.Number, Target: c.Port})
			byRow[c.Endpoint] = rows
		}
	}
	var all []outcome
	for _, shard := range svc.Shards {
		for _, slice := range shard.Slices {
			for i := range slice.Endpoints {
				e := &slice.Endpoints[i]
				if rows := byRow[e]; len(rows) > 0 {
					all = append(all, rows...)
					continue
				}
				all = append(all, outcome{shard: shard.Key, slice: slice, endpoint: e, verdict: verdict{
					state: stateUnmatched, reason: "no port of the service has the name of a port of its slice" + portNames(slice)}})
			}
		}
	}
	return all
}

func (o *outcome) alike(v verdict) bool {
	if o.state != v.state {
		return false
	}
	return o.winner == nil || o.winner.Endpoint == v.winner.Endpoint
}

func portNames(s *model.Slice) string {
	if len(s.Ports) == 0 {
		return ", which has none"
	}
	names := make([]string, len(s.Ports))
	for i, p := range s.Ports {
		names[i] = `"` + p.Name + `"`
	}
	return " (" + strings.Join(names, ", ") + ")"
}
