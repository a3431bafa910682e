package kube

import (
	"hash/maphash"
	"math/bits"
	"slices"

	"tributary/internal/table"
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
	t.dirty.slices = table.Reset(t.dirty.slices)
	t.settleMoves(clock)
	for r, c := range t.dirty.pods {
		t.dropPod(c.name, r)
	}
	t.dirty.pods = table.Reset(t.dirty.pods)
}

// rejoinPods replaces changed pods in the slices that refer to them. A slice is
// copied once, however many of its pods changed.
func (t *tables) rejoinPods() {
	t.round++
	for r, c := range t.dirty.pods {
		for _, id := range r.slices {
			row := t.slices.Get(id)
			for i := range row.slice.Endpoints {
				e := &row.slice.Endpoints[i]
				missing := e.Flags&model.EndpointMissing != 0
				if missing && e.Workload.Name != c.name.Name || !missing && (e.Workload == nil || e.Workload != c.old) {
					continue
				}
				joined := *e
				joinPod(&joined, r, c.name.Name, e.Workload.UID)
				if joined == *e {
					continue
				}
				if row.copied != t.round {
					next := *row.slice
					next.Endpoints = slices.Clone(next.Endpoints)
					row.slice, row.copied = &next, t.round
					t.markEndpoints(row.of)
				}
				s, was := row.slice, *e
				s.Endpoints[i] = joined
				s.OneAddress = s.OneAddress && joined.Workload.OneAddress()
				if was.Workload.Identity != joined.Workload.Identity &&
					!accountsStay(s, []*model.Endpoint{&was}, []*model.Identity{joined.Workload.Identity}) {
					s.Accounts = accountsOf(s.Endpoints, s.Accounts)
				}
			}
		}
	}
}

// joinPod points e, which refers to the pod of r by name and uid, to it, or to
// a placeholder while that pod is not known. Without an identity and labels the
// endpoint must not be served (I:1C): the placeholder holds it back.
func joinPod(e *model.Endpoint, r *podRow, name string, uid model.UID) {
	if r.pod != nil && (e.Flags&model.EndpointAnyUID != 0 || r.pod.UID == uid) {
		e.Workload = r.pod
		if e.Flags &^= ofPod; r.pod.State&model.Finished != 0 {
			e.Flags |= model.EndpointFinished
		}
		return
	}
	if e.Flags&model.EndpointAnyUID != 0 {
		uid = model.UID{}
	}
	var state model.WorkloadState
	if r.pod != nil {
		state = model.AnotherUID
	}
	if e.Flags&model.EndpointMissing == 0 || e.Workload == nil || e.Workload.Name != name || e.Workload.UID != uid || e.Workload.State != state {
		if r.missing == nil || r.missing.UID != uid || r.missing.State != state {
			r.missing = &model.WorkloadInstance{Name: name, UID: uid, State: state}
		}
		e.Workload = r.missing
	}
	e.Flags = e.Flags&^ofPod | model.EndpointMissing
}

// ofPod are the flags that follow from the pod.
const ofPod = model.EndpointMissing | model.EndpointFinished

// joinSlice makes the row of slice n from its input; nil deletes it. Endpoints
// that are as before keep their rows, so the cost is in what changed.
func (t *tables) joinSlice(n model.NamespacedName, in *model.EndpointSlice, clock clock) {
	id := t.sliceIDs[n]
	row := t.slices.Get(id)
	old := row.slice
	row.gone = in == nil
	if in == nil {
		in = &model.EndpointSlice{Object: n, Service: row.service, Version: old.Version, Ports: old.Ports}
	}
	if row.service != in.Service {
		if row.service != "" {
			t.unlinkService(row.of, id)
			old = &model.Slice{Cluster: t.cluster, Object: n, Endpoints: old.Endpoints, OneAddress: old.OneAddress}
			clock.hold = 0 // nothing moves within one service
		}
		row.service = in.Service
		row.of = t.serviceRow(model.NamespacedName{Namespace: n.Namespace, Name: in.Service})
		row.of.slices.Add(id)
	}
	next := &model.Slice{Cluster: t.cluster, Object: old.Object, Version: in.Version, Ports: in.Ports, OneAddress: old.OneAddress || len(old.Endpoints) == 0}
	if slices.Equal(in.Ports, old.Ports) {
		next.Ports = old.Ports
	}
	same := t.joinEndpoints(id, row, old, next, in, clock)
	t.counts.Endpoints += len(next.Endpoints) - len(row.slice.Endpoints)
	if !same || old != row.slice || !slices.Equal(next.Ports, old.Ports) {
		t.markEndpoints(row.of)
	}
	row.slice = next
	if row.gone && len(next.Endpoints) == 0 {
		t.dropSlice(n, id)
	}
}

// joinEndpoints fills what next has of endpoints by a merge of the old rows and
// the input, both sorted by address. It reports whether that is as it was; what
// is, is shared.
func (t *tables) joinEndpoints(id uint32, row *sliceRow, old, next *model.Slice, in *model.EndpointSlice, clock clock) (same bool) {
	t.warm(old.Endpoints, row.refs)
	refs, were := t.refs[:0], row.refs // were: of the rows in prev that are not moving
	list := rowList{old: old.Endpoints, size: len(in.Endpoints)}
	prev := old.Endpoints
	var gone []*model.Endpoint
	var came []*model.Identity // of new rows
	leave := func(e *model.Endpoint) {
		if t.holdMove(id, e, clock) {
			moving := *e
			moving.Flags |= model.EndpointMoving
			moving.Locality = localityIndex(next, old.Where(e))
			list.add(&moving)
			return
		}
		gone = append(gone, e)
	}
	first := func() (e *model.Endpoint, ref uint64) {
		e, prev = &prev[0], prev[1:]
		if e.Flags&model.EndpointMoving == 0 {
			ref, were = were[0], were[1:]
		}
		return e, ref
	}
	zone, locality := "", localityIndex(next, "")
	for i := range in.Endpoints {
		e := &in.Endpoints[i]
		for len(prev) > 0 && prev[0].Addr.Compare(e.Addr) < 0 {
			e, _ := first()
			leave(e)
		}
		if e.Zone != zone {
			zone, locality = e.Zone, localityIndex(next, model.NewLocality("", e.Zone, ""))
		}
		joined := model.Endpoint{Addr: e.Addr, Flags: e.Conditions, Locality: locality}
		if e.Pod != "" && e.UID == (model.UID{}) {
			joined.Flags |= model.EndpointAnyUID
		}
		ref := t.reference(e)
		refs = append(refs, ref)
		var was *model.Endpoint
		var wasRef uint64
		if len(prev) > 0 && prev[0].Addr == e.Addr {
			was, wasRef = first()
		}
		switch {
		case e.Pod == "":
			if was != nil && was.Workload != nil {
				gone = append(gone, was)
			}
		case was != nil && (wasRef == ref || refersTo(was, e)):
			// The row refers to the same incarnation of the same pod, and
			// rejoinPods has brought it up to date.
			joined.Workload = was.Workload
			joined.Flags |= was.Flags & ofPod
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
			came = append(came, joined.Workload.Identity)
			next.OneAddress = next.OneAddress && joined.Workload.OneAddress()
		}
		list.add(&joined)
	}
	for i := range prev {
		leave(&prev[i])
	}
	next.Endpoints = list.rows()
	if t.refs = refs; len(refs) == len(row.refs) {
		copy(row.refs, refs)
	} else {
		row.refs = slices.Clone(refs)
	}
	if slices.Equal(next.Localities, old.Localities) {
		next.Localities, same = old.Localities, list.same()
	}
	next.Accounts = row.slice.Accounts // old may be without
	if !accountsStay(next, gone, came) {
		next.Accounts = accountsOf(next.Endpoints, next.Accounts)
	}
	for _, e := range gone {
		t.unlinkPod(id, next, e)
	}
	return same
}

// warm reads every cache line of what the merge is about to read bit by bit. The
// rows of a slice that nobody looked at for long are in no cache, and so the
// misses overlap instead of following each other (package corebench: about a
// tenth of what a change costs at a million endpoints).
func (t *tables) warm(rows []model.Endpoint, refs []uint64) {
	const line = 64
	var sum uint64
	for i := 0; i < len(rows); i += line / 32 {
		sum += uint64(rows[i].Flags)
	}
	for i := 0; i < len(refs); i += line / 8 {
		sum += refs[i]
	}
	t.warmed = sum // or the compiler leaves the reads out
}

// rowList is the list of a slice's rows while it is made. As long as they are as
// the old ones nothing is copied.
type rowList struct {
	old  []model.Endpoint
	n    int              // the rows that are as in old
	list []model.Endpoint // all rows, from the first one that is not
	size int              // how many may come
}

func (l *rowList) add(e *model.Endpoint) {
	if l.list == nil {
		if l.n < len(l.old) && l.old[l.n] == *e {
			l.n++
			return
		}
		l.list = append(make([]model.Endpoint, 0, max(l.n+1, l.size)), l.old[:l.n]...)
	}
	l.list = append(l.list, *e)
}

func (l *rowList) same() bool { return l.list == nil && l.n == len(l.old) }

func (l *rowList) rows() []model.Endpoint {
	switch {
	case l.list != nil:
		return l.list
	case l.same():
		return l.old
	default:
		return slices.Clone(l.old[:l.n])
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

// reference returns a hash of the pod and incarnation that e refers to; 0 if it
// refers to none. Where it is the same, so is what it refers to: at 64 bits and a
// secret seed that is as sure as the uid itself. It spares reading the pods of
// all rows that did not change.
func (t *tables) reference(e *model.SliceEndpoint) uint64 {
	if e.Pod == "" {
		return 0
	}
	return maphash.String(t.seed, e.Pod) ^ bits.RotateLeft64(maphash.Bytes(t.seed, e.UID[:]), 32)
}

// unlinkPod takes slice id out of the postings of the pod that e referred to,
// unless another endpoint of the slice still refers to it.
func (t *tables) unlinkPod(id uint32, s *model.Slice, e *model.Endpoint) {
	if e.Workload == nil {
		return
	}
	name := e.Workload.Name
	r := t.pods[s.Object.Namespace][name]
	if r == nil {
		return
	}
	for i := range s.Endpoints {
		o := &s.Endpoints[i]
		if o.Flags&model.EndpointMissing != 0 && o.Workload.Name == name || o.Workload != nil && o.Workload == r.pod {
			return
		}
	}
	r.slices.Remove(id)
	t.dropPod(model.NamespacedName{Namespace: s.Object.Namespace, Name: name}, r)
}

// dropSlice forgets the row of a deleted slice that has no endpoints left.
func (t *tables) dropSlice(n model.NamespacedName, id uint32) {
	t.unlinkService(t.slices.Get(id).of, id)
	t.slices.Remove(id)
	delete(t.sliceIDs, n)
}

func (t *tables) unlinkService(r *serviceRow, id uint32) {
	t.moves.endAll(id)
	if r != nil {
		r.slices.Remove(id)
	}
	t.markEndpoints(r)
}

// markEndpoints marks a service; nil is that of a slice which came and went
// before it was joined.
func (t *tables) markEndpoints(r *serviceRow) {
	if r != nil {
		t.dirty.services[r] |= dirtyEndpoints
	}
}

func (t *tables) serviceRow(n model.NamespacedName) *serviceRow {
	r := t.services[n]
	if r == nil {
		r = t.addService(n)
	}
	return r
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

// accountsStay reports whether s.Accounts, which was right before the rows gone
// went and rows with the identities came came, still is. It looks at few rows;
// false only means that it takes more to tell.
func accountsStay(s *model.Slice, gone []*model.Endpoint, came []*model.Identity) bool {
	if len(came) > 16 {
		return false
	}
	has := func(id *model.Identity) bool { return id != nil && id.ServiceAccount != "" }
	for i, id := range came {
		if !has(id) || i > 0 && id == came[i-1] {
			continue
		}
		if !slices.ContainsFunc(s.Accounts, func(a string) bool { return isAccount(a, id) }) {
			return false
		}
	}
	for _, e := range gone {
		if e.Workload == nil || !has(e.Workload.Identity) || slices.Contains(came, e.Workload.Identity) {
			continue
		}
		if !slices.ContainsFunc(s.Endpoints, func(o model.Endpoint) bool { return o.Workload != nil && o.Workload.Identity == e.Workload.Identity }) {
			return false
		}
	}
	return true
}

// isAccount reports whether a names the account of id.
func isAccount(a string, id *model.Identity) bool {
	n := len(id.Namespace)
	return len(a) == n+1+len(id.ServiceAccount) && a[:n] == id.Namespace && a[n+1:] == id.ServiceAccount
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
