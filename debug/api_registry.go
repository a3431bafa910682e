package debug

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"tributary/model"
	"tributary/shards"
)

func (s *Server) apiServices(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "q", "name", "host", "namespace", "cluster", "limit", "continue")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	done, ok := s.walk(w, r)
	if !ok {
		return
	}
	list := s.listServices(&q)
	done() // whoever reads slowly keeps nobody waiting
	writeJSON(w, r, list)
}

func (s *Server) listServices(q *query) List[Service] {
	snap := s.snapshot()
	list := List[Service]{Revision: snap.Revision, Unheard: s.unheard(), Items: []Service{}}
	var last model.ServiceKey
	for svc := range q.candidates(snap) {
		if !q.service(svc.Key) || !inClusters(svc, q.clusters) {
			continue
		}
		list.Total++
		if q.resumed && svc.Key.Compare(q.after.Key) <= 0 {
			continue
		}
		if len(list.Items) == q.limit {
			list.Continue = cursor{Key: last}.String()
			continue // the rest is counted
		}
		list.Items = append(list.Items, newService(svc))
		last = svc.Key
	}
	return list
}

// inClusters reports whether a service is defined or has endpoints in one of
// the clusters.
func inClusters(svc *shards.Service, clusters []string) bool {
	if len(clusters) == 0 {
		return true
	}
	for _, x := range svc.Definition.Sources {
		if slices.Contains(clusters, string(x.Registry.Cluster)) {
			return true
		}
	}
	for _, x := range svc.Shards {
		if slices.Contains(clusters, string(x.Key.Cluster)) {
			return true
		}
	}
	return false
}

func newService(svc *shards.Service) Service {
	d := svc.Definition
	v := Service{
		Host: svc.Key.Host, Namespace: svc.Key.Namespace, Name: d.Winner.Name, Provider: string(d.Winner.Registry.Provider),
		Winner: d.Winner.Registry.String(), Resolution: d.Resolution.String(), Created: createdAt(d.Winner),
		Ports: make([]ServicePort, len(d.Ports)), Accounts: d.Accounts, Revision: svc.Revision, Definition: svc.DefinitionRevision,
	}
	v.AliasOf, v.NodeLocal = d.AliasOf(), d.NodeLocal()
	if shown := d.Visibility(); shown != model.Everywhere {
		v.ShownTo = shown.String()
	}
	if !d.Winner.Selector.Empty() {
		v.Selector = d.Winner.Selector.Map()
	}
	for i, p := range d.Ports {
		v.Ports[i] = ServicePort{Name: p.Name, Port: p.Number, Protocol: p.Protocol.String(), TargetPort: p.TargetPort}
	}
	for _, c := range d.Conflicts {
		v.Conflicts = append(v.Conflicts, Conflict{Field: c.Field, Winner: c.Winner.String(), Loser: c.Loser.String(), Detail: c.Detail})
	}
	v.Clusters = []ServiceCluster{}
	for _, row := range perCluster(svc) {
		c := ServiceCluster{Cluster: string(row.cluster), Defined: row.Services > 0, Endpoints: row.Endpoints, Served: row.Served}
		for _, vips := range d.VIPs {
			if vips.Cluster == row.cluster {
				c.VIPs = addresses(vips.VIPs)
			}
		}
		v.Clusters = append(v.Clusters, c)
		v.Endpoints += row.Endpoints
		v.Served += row.Served
	}
	return v
}

// createdAt returns when the object was created; the zero time if it does not
// tell, as a manifest in a directory does not.
func createdAt(s *model.Service) time.Time {
	if s.Created == 0 {
		return time.Time{}
	}
	return time.Unix(s.Created, 0).UTC()
}

func addresses(list []model.Addr) []string {
	s := make([]string, len(list))
	for i, a := range list {
		s[i] = a.String()
	}
	return s
}

func (s *Server) apiEndpoints(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "q", "name", "host", "namespace", "cluster", "state", "limit", "continue")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	done, ok := s.walk(w, r)
	if !ok {
		return
	}
	snap := s.snapshot()
	list := List[Endpoint]{Revision: snap.Revision, Unheard: s.unheard(), Items: []Endpoint{}}
	list.Continue = q.endpoints(snap, func(e Endpoint) { list.Items = append(list.Items, e) })
	done()
	if list.Total = len(list.Items); q.resumed || list.Continue != "" {
		list.Total = -1
	}
	writeJSON(w, r, list)
}

// endpoints calls found for at most q.limit endpoints and returns where the
// next page begins; "" if there is none.
func (q *query) endpoints(snap *shards.Snapshot, found func(Endpoint)) (next string) {
	n := 0
	for svc := range q.candidates(snap) {
		order := svc.Key.Compare(q.after.Key)
		if !q.service(svc.Key) || q.resumed && order < 0 || !inClusters(svc, q.clusters) {
			continue
		}
		for i, o := range outcomes(svc) {
			if q.resumed && order == 0 && i < q.after.Skip || !oneOf(q.clusters, string(o.shard.Cluster)) || !oneOf(q.states, o.state) {
				continue
			}
			if n == q.limit {
				return cursor{svc.Key, i}.String()
			}
			found(newEndpoint(svc.Key, &o))
			n++
		}
	}
	return ""
}

func newEndpoint(key model.ServiceKey, o *outcome) Endpoint {
	e := Endpoint{
		Host: key.Host, Namespace: key.Namespace, Cluster: string(o.shard.Cluster), Provider: string(o.shard.Provider),
		Address: o.endpoint.Addr.String(), Ports: o.ports, State: o.state, Reason: o.reason,
		Moving: o.endpoint.Flags&model.EndpointMoving != 0, Slice: o.slice.Object.String(), Version: o.slice.Version,
		Locality: string(o.slice.Where(o.endpoint)), Weight: o.endpoint.Weight, Workload: workloadName(o.endpoint),
	}
	if w := o.endpoint.Workload; w != nil {
		if id := w.Identity; id != nil {
			e.Kind, e.Account = id.Kind.String(), id.ServiceAccount
		}
		if p := w.Placement; p != nil {
			e.Node, e.Network = p.Node, p.Network
		}
		if !w.Labels.Empty() {
			e.Labels = maps.Collect(w.Labels.All())
		}
	}
	if by := o.winner; by != nil {
		e.ShadowedBy = &Shadow{
			Cluster: string(by.Shard.Cluster), Provider: string(by.Shard.Provider), Slice: by.Slice.Object.String(), Workload: workloadName(by.Endpoint),
		}
	}
	return e
}

// workloadName returns the name of what an endpoint belongs to; "" if nothing.
func workloadName(e *model.Endpoint) string {
	if e.Workload == nil {
		return ""
	}
	return e.Workload.Name
}
