package debug

import (
	"net/http"
	"strconv"
	"strings"

	"tributary/clusters"
	"tributary/model"
	"tributary/xds"
)

func (s *Server) apiClusters(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "name")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	snap := s.snapshot()
	s.tally.count(snap)
	list := List[Cluster]{Revision: snap.Revision, Unheard: s.unheard(), Items: []Cluster{}}
	for _, c := range s.sources.Clusters() {
		if oneOf(q.names, string(c.ID)) {
			list.Items = append(list.Items, s.newCluster(&c))
		}
	}
	list.Total = len(list.Items)
	writeJSON(w, r, list)
}

func (s *Server) newCluster(c *clusters.Status) Cluster {
	v := Cluster{
		ID: string(c.ID), Type: c.Type, Secret: c.Secret, File: c.File, Dir: c.Dir, State: c.State.String(), Reason: c.Reason,
		Since: c.Since.UTC(), Added: c.Added.UTC(), Epoch: c.Epoch, Known: c.Known, TimedOut: c.TimedOut, LastError: c.LastError,
	}
	if !c.LastEvent.IsZero() {
		t := c.LastEvent.UTC()
		v.LastEvent = &t
	}
	for _, k := range c.Kinds {
		if k.Remark != "" {
			v.Remarks = append(v.Remarks, k.Remark)
		}
	}
	v.Kinds, v.Probe = c.Kinds, c.Probe
	if r := c.Removal; r != nil {
		v.Removal = &Removal{r.Begins.UTC(), r.Ends.UTC(), c.Served}
	}
	if c.Known {
		now := s.tally.cluster(c.ID)
		v.Now = &now
		v.AtSync = &AtSync{
			Services: c.Services, Slices: c.Slices, Workloads: c.Workloads, Endpoints: c.Endpoints, Seconds: c.SyncDuration.Seconds(),
		}
	}
	return v
}

func (s *Server) apiProxies(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "name", "namespace", "cluster", "limit", "continue")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	list := List[Proxy]{Revision: s.snapshot().Revision, Items: []Proxy{}}
	for _, p := range s.sources.Proxies() {
		if !proxyNamed(q.names, p.ID) || !oneOf(q.namespaces, p.Namespace) || !oneOf(q.clusters, string(p.Cluster)) {
			continue
		}
		list.Total++
		if q.resumed && !afterProxy(&p, q.after) {
			continue
		}
		if len(list.Items) == q.limit {
			if list.Continue == "" {
				last := list.Items[q.limit-1]
				list.Continue = proxyCursor(last.ID, last.Connected.UnixNano()).String()
			}
			continue
		}
		list.Items = append(list.Items, newProxy(&p))
	}
	writeJSON(w, r, list)
}

// proxyCursor is a place in the order of proxies: by id, then by the age of the
// stream, which stays the same while others come and go.
func proxyCursor(id string, connected int64) cursor {
	return cursor{Key: model.ServiceKey{Host: strings.ReplaceAll(id, "\x00", " "), Namespace: strconv.FormatInt(connected, 10)}}
}

func afterProxy(p *xds.Proxy, c cursor) bool {
	id := strings.ReplaceAll(p.ID, "\x00", " ")
	if id != c.Key.Host {
		return id > c.Key.Host
	}
	connected, err := strconv.ParseInt(c.Key.Namespace, 10, 64)
	return err == nil && p.Connected.UnixNano() > connected
}

// proxyNamed reports whether a proxy is meant by one of names: its id, or the
// part NAME or NAME.NAMESPACE of an id as sidecars have it.
func proxyNamed(names []string, id string) bool {
	if named(names, id) {
		return true
	}
	parts := strings.Split(id, "~")
	return len(parts) == 4 && named(names, parts[2])
}

func typeState(t *xds.ProxyType) string {
	switch {
	case t.Failure != "":
		return "ERROR"
	case t.Sent == "":
		return "NOT SENT"
	case t.Synced():
		return "SYNCED"
	}
	return "STALE"
}

func newProxy(p *xds.Proxy) Proxy {
	v := Proxy{
		ID: p.ID, Class: p.Class.String(), Cluster: string(p.Cluster), Namespace: p.Namespace, IstioVersion: p.IstioVersion, UserAgent: p.UserAgent, Peer: p.Peer,
		Protocol: "sotw", Connected: p.Connected.UTC(), State: proxyState(p), Types: make([]ProxyType, len(p.Types)),
	}
	if p.Delta {
		v.Protocol = "delta"
	}
	for i := range p.Types {
		t := &p.Types[i]
		v.Types[i] = ProxyType{
			Type: xds.ShortType(t.URL), URL: t.URL, Names: t.Names, All: t.All, Sent: t.Sent, Acked: t.Acked, Version: t.Version,
			State: typeState(t), Failure: t.Failure, Quarantined: t.Quarantined, Changed: t.Changed.UTC(),
		}
	}
	return v
}

// proxyState returns the worst state of a proxy's types. A type of which there
// is nothing to send is no trouble as long as others are synced.
func proxyState(p *xds.Proxy) string {
	found := map[string]bool{}
	for i := range p.Types {
		found[typeState(&p.Types[i])] = true
	}
	for _, state := range []string{"ERROR", "STALE", "SYNCED"} {
		if found[state] {
			return state
		}
	}
	return "NOT SENT"
}
