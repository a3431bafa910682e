package kube

import (
	"slices"

	"tributary/model"
)

// derive joins what the round touched: changed pods into the slices that refer
// to them, changed slices to the pods they refer to. Afterwards every slice row
// is a function of the newest slice and the pods alone, whatever order they
// came in, and t.dirty.services names each service whose rows are different.
func (t *tables) derive(clock clock) {
	t.rejoinPods()
	for _, n := range sortedNames(t.dirty.slices) {
		t.joinSlice(n, t.dirty.slices[n], clock)
	}
	clear(t.dirty.slices)
	t.settleMoves(clock)
	for r, c := range t.dirty.pods {
		t.dropPod(c.name, r)
	}
	clear(t.dirty.pods)
}

// rejoinPods replaces changed pods in the slices that refer to them.
func (t *tables) rejoinPods() {
	for r, c := range t.dirty.pods {
		for _, id := range r.slices {
			row := t.slices.Get(id)
			s := row.slice
			var eps []model.Endpoint // copied on the first change
			accounts := false
			for i := range s.Endpoints {
				e := &s.Endpoints[i]
				missing := e.Flags&model.EndpointMissing != 0
				if !(missing && e.Workload.Name == c.name.Name) && (missing || e.Workload == nil || e.Workload != c.old) {
					continue
				}
				joined := *e
				joinPod(&joined, r, c.name.Name, e.Workload.UID)
				if joined == *e {
					continue
				}
				if eps == nil {
					eps = slices.Clone(s.Endpoints)
				}
				eps[i] = joined
				accounts = accounts || joined.Workload.Identity != e.Workload.Identity
			}
			if eps == nil {
				continue
			}
			next := *s
			next.Endpoints = eps
			if accounts {
				next.Accounts = accountsOf(eps, s.Accounts)
			}
			row.slice = &next
			t.markEndpoints(s.Object.Namespace, row.service)
		}
	}
}

// joinPod points e, which refers to the pod of r by name and uid, to it, or to
// a placeholder while that pod is not known. Without an identity and labels the
// endpoint must not be served (I:1C): the placeholder holds it back.
func joinPod(e *model.Endpoint, r *podRow, name string, uid model.UID) {
	if r.pod != nil && (e.Flags&model.EndpointAnyUID != 0 || r.pod.UID == uid) {
		e.Workload = r.pod
		e.Flags &^= model.EndpointMissing
		return
	}
	if e.Flags&model.EndpointAnyUID != 0 {
		uid = model.UID{}
	}
	if e.Flags&model.EndpointMissing == 0 || e.Workload == nil || e.Workload.Name != name || e.Workload.UID != uid {
		e.Workload = &model.WorkloadInstance{Name: name, UID: uid}
	}
	e.Flags |= model.EndpointMissing
}

// joinSlice makes the row of slice n from its input; nil deletes it. Endpoints
// that are as before keep their rows, so the cost is in what changed.
func (t *tables) joinSlice(n model.NamespacedName, in *model.EndpointSlice, clock clock) {
	id, known := t.sliceIDs[n]
	if !known {
		if in == nil {
			return
		}
		id = t.slices.Add(sliceRow{slice: &model.Slice{Cluster: t.cluster, Object: n}})
		t.sliceIDs[n] = id
	}
	row := t.slices.Get(id)
	old := row.slice
	row.gone = in == nil
	if in == nil {
		in = &model.EndpointSlice{Object: n, Service: row.service, Version: old.Version, Ports: old.Ports}
	} else {
		row.generation = t.generation[model.KindEndpointSlice]
	}
	if row.service != in.Service {
		if known && row.service != "" {
			t.unlinkService(n.Namespace, row.service, id)
			old = &model.Slice{Cluster: t.cluster, Object: n, Endpoints: old.Endpoints}
			clock.hold = 0 // nothing moves within one service
		}
		row.service = in.Service
		r := t.serviceRow(model.NamespacedName{Namespace: n.Namespace, Name: in.Service})
		r.slices.Add(id)
	}
	next := &model.Slice{Cluster: t.cluster, Object: old.Object, Version: in.Version, Ports: in.Ports}
	if slices.Equal(in.Ports, old.Ports) {
		next.Ports = old.Ports
	}
	t.joinEndpoints(id, row, old, next, in, clock)
	same := slices.Equal(next.Endpoints, old.Endpoints) && slices.Equal(next.Localities, old.Localities)
	if same {
		next.Endpoints, next.Localities, next.Accounts = old.Endpoints, old.Localities, old.Accounts
	} else {
		next.Accounts = accountsOf(next.Endpoints, old.Accounts)
	}
	t.counts.Endpoints += len(next.Endpoints) - len(row.slice.Endpoints)
	if !same || old != row.slice || !slices.Equal(next.Ports, old.Ports) {
		t.markEndpoints(n.Namespace, row.service)
	}
	row.slice = next
	if row.gone && len(next.Endpoints) == 0 {
		t.dropSlice(n, id)
	}
}

// joinEndpoints fills next.Endpoints by a merge of the old rows and the input,
// both sorted by address.
func (t *tables) joinEndpoints(id uint32, row *sliceRow, old, next *model.Slice, in *model.EndpointSlice, clock clock) {
	next.Endpoints = make([]model.Endpoint, 0, len(in.Endpoints))
	prev := old.Endpoints
	var gone []*model.Endpoint
	leave := func(e *model.Endpoint) {
		if t.holdMove(id, row, e, clock) {
			moving := *e
			moving.Flags |= model.EndpointMoving
			moving.Locality = localityIndex(next, old.Where(e))
			next.Endpoints = append(next.Endpoints, moving)
			return
		}
		gone = append(gone, e)
	}
	for i := range in.Endpoints {
		e := &in.Endpoints[i]
		for len(prev) > 0 && prev[0].Addr.Compare(e.Addr) < 0 {
			leave(&prev[0])
			prev = prev[1:]
		}
		joined := model.Endpoint{Addr: e.Addr, Flags: e.Conditions, Locality: localityIndex(next, model.NewLocality("", e.Zone, ""))}
		if e.Pod != "" && e.UID == (model.UID{}) {
			joined.Flags |= model.EndpointAnyUID
		}
		var was *model.Endpoint
		if len(prev) > 0 && prev[0].Addr == e.Addr {
			was, prev = &prev[0], prev[1:]
		}
		switch {
		case e.Pod == "":
			if was != nil && was.Workload != nil {
				gone = append(gone, was)
			}
		case was != nil && refersTo(was, e):
			// The row refers to the same incarnation of the same pod, and
			// rejoinPods has brought it up to date.
			joined.Workload = was.Workload
			joined.Flags |= was.Flags & model.EndpointMissing
		default:
			if was != nil && was.Workload != nil {
				gone = append(gone, was)
			}
			name := model.NamespacedName{Namespace: in.Object.Namespace, Name: e.Pod}
			r := t.pods[name.Namespace][name.Name]
			if r == nil {
				r = t.addPod(name)
			}
			r.slices.Add(id)
			joinPod(&joined, r, e.Pod, e.UID)
		}
		next.Endpoints = append(next.Endpoints, joined)
	}
	for i := range prev {
		leave(&prev[i])
	}
	for _, e := range gone {
		t.unlinkPod(id, next, e)
	}
}

// refersTo reports whether row was refers to the pod that input e names, and to
// the same incarnation of it.
func refersTo(was *model.Endpoint, e *model.SliceEndpoint) bool {
	if was.Workload == nil || was.Workload.Name != e.Pod {
		return false
	}
	anyUID := was.Flags&model.EndpointAnyUID != 0
	return anyUID == (e.UID == model.UID{}) && (anyUID || was.Workload.UID == e.UID)
}

// unlinkPod takes slice id out of the postings of the pod that e referred to,
// unless another endpoint of the slice still refers to it.
func (t *tables) unlinkPod(id uint32, s *model.Slice, e *model.Endpoint) {
	if e.Workload == nil {
		return
	}
	name := e.Workload.Name
	if slices.ContainsFunc(s.Endpoints, func(o model.Endpoint) bool { return o.Workload != nil && o.Workload.Name == name }) {
		return
	}
	if r := t.pods[s.Object.Namespace][name]; r != nil {
		r.slices.Remove(id)
		t.dropPod(model.NamespacedName{Namespace: s.Object.Namespace, Name: name}, r)
	}
}

// dropSlice forgets the row of a deleted slice that has no endpoints left.
func (t *tables) dropSlice(n model.NamespacedName, id uint32) {
	t.unlinkService(n.Namespace, t.slices.Get(id).service, id)
	t.slices.Remove(id)
	delete(t.sliceIDs, n)
}

func (t *tables) unlinkService(namespace, name string, id uint32) {
	n := model.NamespacedName{Namespace: namespace, Name: name}
	if r := t.services[n]; r != nil {
		r.slices.Remove(id)
		t.markEndpoints(namespace, name)
	}
}

func (t *tables) serviceRow(n model.NamespacedName) *serviceRow {
	r := t.services[n]
	if r == nil {
		r = &serviceRow{}
		t.services[n] = r
	}
	return r
}

func (t *tables) markEndpoints(namespace, service string) {
	t.dirty.services[model.NamespacedName{Namespace: namespace, Name: service}] |= dirtyEndpoints
}

// localityIndex returns the index of l in s.Localities, adding it if need be. A
// slice has few zones; past what an index can hold the locality is unknown.
func localityIndex(s *model.Slice, l model.Locality) uint8 {
	const unknown = 255
	if l == "" {
		return unknown
	}
	i := slices.Index(s.Localities, l)
	if i < 0 {
		if len(s.Localities) == unknown {
			return unknown
		}
		s.Localities = append(s.Localities, l)
		i = len(s.Localities) - 1
	}
	return uint8(i)
}

// accountsOf returns the service accounts behind the endpoints, as
// "namespace/account", sorted; old itself if it is the same. Endpoints that are
// not ready count too: what a client accepts as the server's identity must not
// flap with readiness (I:6 B24).
func accountsOf(eps []model.Endpoint, old []string) []string {
	var accounts []string
	var last *model.Identity
	for i := range eps {
		e := &eps[i]
		if e.Workload == nil || e.Workload.Identity == nil || e.Workload.Identity == last || e.Workload.Identity.ServiceAccount == "" {
			continue
		}
		last = e.Workload.Identity
		account := last.Namespace + "/" + last.ServiceAccount
		if i, found := slices.BinarySearch(accounts, account); !found {
			accounts = slices.Insert(accounts, i, account)
		}
	}
	if slices.Equal(accounts, old) {
		return old
	}
	return accounts
}
