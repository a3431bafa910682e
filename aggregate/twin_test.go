package aggregate_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"tributary/model"
)

// The twin of the core: it keeps the rows that sources have said, in plain
// maps, and computes the whole view from them each time it is asked, without
// any index. It is meant to be read beside DESIGN sections 3 and 4 and believed;
// it shares no code with the core.
type twin struct {
	config  model.ClusterID
	sources map[model.ShardKey]*twinSource
	gone    map[model.ShardKey]uint64
	shares  map[model.ClusterID]uint8 // of clusters that are drained, in percent
	// Switches of cross-registration.
	podsToEntries, entriesToServices bool
	// selected tells by its labels whether a namespace is; nil: all are.
	selected func(labels map[string]string) bool
}

type twinSource struct {
	epochs map[uint64]*twinRows // the one in force and at most one newer
	now    uint64               // the epoch in force
	newest uint64
}

// twinRows is what one epoch has said.
type twinRows struct {
	rows     [model.Kinds]map[model.NamespacedName]any
	named    [model.Kinds]map[model.NamespacedName]bool // by the running snapshot
	complete [model.Kinds]bool
}

func newTwin(config model.ClusterID) *twin {
	return &twin{config: config, shares: map[model.ClusterID]uint8{}, sources: map[model.ShardKey]*twinSource{}, gone: map[model.ShardKey]uint64{}, podsToEntries: true, entriesToServices: true}
}

func (w *twin) apply(b model.Batch) {
	s := w.sources[b.Source]
	if b.Share != 0 {
		if s != nil && b.Epoch >= s.newest && b.Source.Provider == model.Kubernetes {
			w.shares[b.Source.Cluster] = b.Share
		}
		return
	}
	if b.Removed {
		if s == nil || b.Epoch >= s.newest {
			if b.Source.Provider == model.Kubernetes {
				delete(w.shares, b.Source.Cluster)
			}
			delete(w.sources, b.Source)
			w.gone[b.Source] = max(w.gone[b.Source], b.Epoch)
		}
		return
	}
	if s == nil {
		if gone, ok := w.gone[b.Source]; ok && b.Epoch <= gone {
			return
		}
		s = &twinSource{epochs: map[uint64]*twinRows{}, now: b.Epoch, newest: b.Epoch}
		w.sources[b.Source] = s
	}
	if b.Epoch > s.newest {
		if s.newest != s.now {
			delete(s.epochs, s.newest) // superseded before it was complete
		}
		s.newest = b.Epoch
	}
	if b.Source.Provider == model.External {
		b.Epoch = s.now // the registry of entries_test.go has no epochs
	}
	if b.Epoch != s.now && b.Epoch != s.newest {
		return
	}
	r := s.epochs[b.Epoch]
	if r == nil {
		r = &twinRows{}
		for k := range r.rows {
			r.rows[k], r.named[k] = map[model.NamespacedName]any{}, map[model.NamespacedName]bool{}
		}
		s.epochs[b.Epoch] = r
	}
	r.apply(b)
	if b.Epoch == s.newest && !slices.Contains(r.complete[:], false) && s.now != s.newest {
		delete(s.epochs, s.now)
		s.now = s.newest
	}
}

func (r *twinRows) apply(b model.Batch) {
	rows, named := r.rows[b.Kind], r.named[b.Kind]
	if b.SnapshotStart {
		clear(named)
	}
	for n, row := range rowsOf(b) {
		rows[n], named[n] = row, true
	}
	for _, n := range b.Deletes {
		delete(rows, n)
	}
	if b.SnapshotEnd {
		for n := range rows {
			if !named[n] {
				delete(rows, n)
			}
		}
		r.complete[b.Kind] = true
	}
}

func rowsOf(b model.Batch) map[model.NamespacedName]any {
	rows := map[model.NamespacedName]any{}
	for _, s := range b.Services {
		rows[model.NamespacedName{Namespace: s.Key.Namespace, Name: s.Name}] = s
	}
	for _, s := range b.Slices {
		rows[s.Object] = s
	}
	for _, p := range b.Workloads {
		rows[model.NamespacedName{Namespace: p.Identity.Namespace, Name: p.Name}] = p
	}
	for _, n := range b.Nodes {
		rows[model.NamespacedName{Name: n.Name}] = n
	}
	for _, n := range b.Namespaces {
		rows[model.NamespacedName{Name: n.Name}] = n
	}
	return rows
}

// inForce returns the rows of a kind that count, of all sources of a provider.
func inForce[R any](w *twin, provider model.Provider, kind model.Kind) map[model.ShardKey][]R {
	all := map[model.ShardKey][]R{}
	for key, s := range w.sources {
		if key.Provider == provider && s.epochs[s.now] != nil {
			for _, row := range s.epochs[s.now].rows[kind] {
				all[key] = append(all[key], row.(R))
			}
		}
	}
	return all
}

// namespace returns the labels of a namespace, and whether it is selected.
func (w *twin) namespace(source model.ShardKey, name string) (labels map[string]string, selected bool) {
	s := w.sources[source]
	rows := s.epochs[s.now]
	labels = map[string]string{"kubernetes.io/metadata.name": name}
	if n := rows.rows[model.KindNamespace][model.NamespacedName{Name: name}]; n != nil {
		labels = n.(*model.Namespace).Labels.Map()
	}
	return labels, w.selected == nil || rows.complete[model.KindNamespace] && w.selected(labels)
}

// pods returns the pods of all clusters, each with the place where it is.
func (w *twin) pods() map[model.ShardKey][]*model.WorkloadInstance {
	all := inForce[*model.WorkloadInstance](w, model.Kubernetes, model.KindPod)
	for source, pods := range all {
		nodes := w.sources[source].epochs[w.sources[source].now].rows[model.KindNode]
		system, _ := w.namespace(source, "istio-system")
		for i, said := range pods {
			pod, place := *said, *said.Placement
			if n := nodes[model.NamespacedName{Name: place.Node}]; n != nil && place.Locality == "" {
				place.Locality = n.(*model.Node).Locality
			}
			if place.Network == "" {
				place.Network = system["topology.istio.io/network"]
			}
			pod.Placement = &place
			pods[i] = &pod
		}
	}
	return all
}

// shown keeps the pods of namespaces that are selected.
func (w *twin) shown(all map[model.ShardKey][]*model.WorkloadInstance) (list []*model.WorkloadInstance) {
	for source, pods := range all {
		for _, p := range pods {
			if _, selected := w.namespace(source, p.Identity.Namespace); selected {
				list = append(list, p)
			}
		}
	}
	return list
}

// twinEndpoint is one address of a service, for each port name one target.
type twinEndpoint struct {
	shard    model.ShardKey
	object   string // slice
	addr     model.Addr
	targets  map[string]uint16
	flags    model.EndpointFlags
	workload *model.WorkloadInstance
	missing  string
	another  bool // of the missing one there is another incarnation
	zone     string
}

// view returns the text of every service, by key.
func (w *twin) view() map[string]string {
	definitions := map[model.ServiceKey][]*model.Service{}
	endpoints := map[model.ServiceKey][]twinEndpoint{}
	slicesOf := inForce[*model.EndpointSlice](w, model.Kubernetes, model.KindEndpointSlice)
	pods := w.pods()
	entries := inForce[*model.WorkloadInstance](w, model.External, model.KindPod)
	for source, services := range inForce[*model.Service](w, model.Kubernetes, model.KindService) {
		for _, s := range services {
			if _, selected := w.namespace(source, s.Key.Namespace); !selected {
				continue
			}
			definitions[s.Key] = append(definitions[s.Key], s)
			for _, slice := range slicesOf[source] {
				if slice.Service == s.Name && slice.Object.Namespace == s.Key.Namespace {
					endpoints[s.Key] = append(endpoints[s.Key], joinTwin(source, slice, pods[source])...)
				}
			}
			if w.entriesToServices && s.Resolution == model.ClientSideLB {
				for _, e := range flatten(entries) {
					if chosen(s, e) && len(twinTargets(s, e)) > 0 {
						endpoints[s.Key] = append(endpoints[s.Key], selectedTwin(model.Kubernetes, "", e, twinTargets(s, e)))
					}
				}
			}
		}
	}
	for _, services := range inForce[*model.Service](w, model.External, model.KindService) {
		for _, s := range services {
			definitions[s.Key] = append(definitions[s.Key], s)
			targets := map[string]uint16{}
			for _, p := range s.Ports {
				targets[p.Name] = p.Number
			}
			for _, p := range w.shown(pods) {
				if w.podsToEntries && chosen(s, p) {
					endpoints[s.Key] = append(endpoints[s.Key], selectedTwin(model.External, "se-"+s.Name, p, targets))
				}
			}
		}
	}
	texts := map[string]string{}
	for key, sources := range definitions {
		w.drainTwin(key, endpoints[key])
		texts[key.String()] = w.serviceText(key, sources, endpoints[key])
	}
	for key := range definitions {
		for _, a := range aliasesTwin(definitions, key) {
			texts[key.String()] += "\nalias " + a
		}
	}
	return texts
}

// aliasesTwin returns the services that stand for the host of key, directly or
// by way of other aliases. definitions have their winners first.
func aliasesTwin(definitions map[model.ServiceKey][]*model.Service, key model.ServiceKey) []string {
	found := map[model.ServiceKey]bool{}
	for more := true; more; {
		more = false
		for a, sources := range definitions {
			if sources[0].Resolution != model.Alias || a.Host == key.Host || found[a] {
				continue
			}
			for target := range definitions {
				if target.Host == sources[0].AliasOf && (target == key || found[target]) {
					found[a], more = true, true
				}
			}
		}
	}
	var names []string
	for _, a := range slices.SortedFunc(maps.Keys(found), model.ServiceKey.Compare) {
		names = append(names, a.String())
	}
	return names
}

func flatten(all map[model.ShardKey][]*model.WorkloadInstance) (list []*model.WorkloadInstance) {
	for _, l := range all {
		list = append(list, l...)
	}
	return list
}

func joinTwin(source model.ShardKey, slice *model.EndpointSlice, pods []*model.WorkloadInstance) (list []twinEndpoint) {
	targets := map[string]uint16{}
	for _, p := range slice.Ports {
		targets[p.Name] = p.Number
	}
	for _, e := range slice.Endpoints {
		t := twinEndpoint{shard: source, object: slice.Object.Name, addr: e.Addr, targets: targets, flags: e.Conditions, missing: e.Pod}
		if e.Zone != "" {
			t.zone = "/" + e.Zone
		}
		for _, p := range pods {
			switch {
			case p.Identity.Namespace != slice.Object.Namespace || p.Name != e.Pod:
			case e.UID == p.UID || e.UID == model.UID{}:
				t.workload, t.missing = p, ""
			default:
				t.another = true
			}
		}
		list = append(list, t)
	}
	return list
}

// drainTwin marks what is no longer served of clusters that are drained: of the
// workloads that a service has in a shard, in the order of their hashes, the
// first are left, as many as the share is of all, rounded as the hash of the
// service says.
func (w *twin) drainTwin(key model.ServiceKey, endpoints []twinEndpoint) {
	sum := func(s string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(s))
		return h.Sum64()
	}
	who := func(e *twinEndpoint) string {
		switch {
		case e.missing != "":
			return e.missing
		case e.workload != nil:
			return e.workload.Name
		}
		return e.addr.String()
	}
	for i := range endpoints {
		e := &endpoints[i]
		share, draining := w.shares[e.shard.Cluster]
		if !draining || share >= 100 {
			continue
		}
		before, all := map[string]bool{}, map[string]bool{}
		for j := range endpoints {
			o := &endpoints[j]
			if o.shard != e.shard {
				continue
			}
			all[who(o)] = true
			if mine, theirs := sum(who(e)), sum(who(o)); theirs < mine || theirs == mine && who(o) < who(e) {
				before[who(o)] = true
			}
		}
		left := float64(len(all))*float64(share)/100 + float64(sum(key.String())%100)/100
		if len(before) >= int(left+1e-9) {
			e.flags |= model.EndpointDrained
		}
	}
}

// chosen tells whether s selects workload w.
func chosen(s *model.Service, w *model.WorkloadInstance) bool {
	labels, want := w.Labels.Map(), s.Selector.Map()
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	serving := w.State&model.Ready != 0 && w.State&model.Terminating == 0 && w.State&model.Finished == 0
	return len(want) > 0 && serving && w.Addr != model.Addr{} && w.Identity.Namespace == s.Key.Namespace
}

func selectedTwin(provider model.Provider, object string, w *model.WorkloadInstance, targets map[string]uint16) twinEndpoint {
	shard := model.ShardKey{Provider: provider, Cluster: w.Identity.Cluster}
	return twinEndpoint{shard: shard, object: object, addr: w.Addr, targets: targets, workload: w, flags: model.EndpointReady | model.EndpointServing}
}

func twinTargets(s *model.Service, w *model.WorkloadInstance) map[string]uint16 {
	named := map[string]uint16{}
	if w.Details != nil {
		for _, p := range w.Details.Ports {
			named[p.Name] = p.Number
		}
	}
	targets := map[string]uint16{}
	for _, p := range s.Ports {
		number, err := strconv.Atoi(p.TargetPort)
		switch {
		case p.Protocol == model.UDP, p.Protocol == model.SCTP:
		case named[p.Name] != 0:
			targets[p.Name] = named[p.Name]
		case p.TargetPort == "":
			targets[p.Name] = p.Number
		case err == nil:
			targets[p.Name] = uint16(number)
		case named[p.TargetPort] != 0:
			targets[p.Name] = named[p.TargetPort]
		}
	}
	return targets
}

// serviceText merges the definitions and renders the service.
func (w *twin) serviceText(key model.ServiceKey, sources []*model.Service, endpoints []twinEndpoint) string {
	rank := func(s *model.Service) string { // as text: only for sorting
		n := ""
		for _, first := range []bool{s.Registry.Provider == model.Kubernetes, s.Registry.Cluster == w.config} {
			n += map[bool]string{true: "0", false: "1"}[first]
		}
		return fmt.Sprintf("%s %020d %s", n, s.Created, s.Registry.Cluster)
	}
	sort.Slice(sources, func(i, j int) bool { return rank(sources[i]) < rank(sources[j]) })
	win := sources[0]
	var lines, names, conflicts []string
	var ports []model.Port
	owners := map[model.Port]model.ShardKey{}
	for _, s := range sources {
		names = append(names, s.Registry.String())
		for _, p := range s.Ports {
			exact, agrees, partly := model.ShardKey{}, false, model.ShardKey{}
			for _, q := range slices.Backward(ports) { // the first one counts
				if q.Name == p.Name && q.Number == p.Number {
					exact, agrees = owners[q], q.Protocol == p.Protocol
				}
				if (q.Name == p.Name || q.Number == p.Number) && owners[q] != s.Registry {
					partly = owners[q]
				}
			}
			if winner := cmp.Or(exact, partly); winner == (model.ShardKey{}) {
				ports = append(ports, p)
				owners[p] = s.Registry
			} else if !agrees {
				conflicts = append(conflicts, fmt.Sprintf("conflict port %d/%s: %v, not %v", p.Number, p.Name, winner, s.Registry))
			}
		}
		for field, differs := range map[string]bool{
			"resolution": s.Resolution != win.Resolution, "alias": s.Resolution == win.Resolution && s.AliasOf != win.AliasOf,
			"visibility": s.Visibility != win.Visibility, "node local": s.NodeLocal != win.NodeLocal,
		} {
			if differs {
				conflicts = append(conflicts, fmt.Sprintf("conflict %s: %v, not %v", field, win.Registry, s.Registry))
			}
		}
		if len(s.VIPs)+len(s.External) > 0 {
			lines = append(lines, fmt.Sprintf("vips %s: %v, %v", s.Registry.Cluster, s.VIPs, s.External))
		}
	}
	accounts := map[string]bool{}
	for _, s := range sources {
		for _, a := range s.Accounts {
			accounts[a] = true
		}
	}
	for _, e := range endpoints {
		if e.workload != nil && e.workload.Identity.ServiceAccount != "" {
			accounts[e.workload.Identity.Namespace+"/"+e.workload.Identity.ServiceAccount] = true
		}
	}
	lines = append(lines, conflicts...)
	lines = append(lines, fmt.Sprintf("sources %v, %v %q, shown %v, node local %v", names, win.Resolution, win.AliasOf, win.Visibility, win.NodeLocal), fmt.Sprintf("accounts %v", slices.Sorted(maps.Keys(accounts))))
	for _, p := range ports {
		lines = append(lines, fmt.Sprintf("port %v", p))
		lines = append(lines, twinCandidates(p, sources, endpoints)...)
	}
	slices.Sort(lines)
	return key.String() + "\n" + strings.Join(lines, "\n")
}

// twinCandidates renders the endpoints of one port. Among served ones of one
// address, target and network the first wins: pods before WorkloadEntries, then
// by provider and cluster, then by name of the workload, IPv4 first, then by name
// of the slice. The addresses of a pod with several are one.
func twinCandidates(p model.Port, sources []*model.Service, endpoints []twinEndpoint) (lines []string) {
	order := func(e twinEndpoint) string {
		kind, name, provider, family := "0", "", "0", "1"
		if e.addr.Netip().Is4() {
			family = "0"
		}
		if e.workload != nil {
			name = e.workload.Name
			if e.workload.Identity.Kind == model.WorkloadEntry {
				kind = "1"
			}
		}
		if e.shard.Provider != model.Kubernetes {
			provider = "1"
		}
		return strings.Join([]string{kind, provider, string(e.shard.Cluster), name, family, e.object, fmt.Sprintf("%x", e.addr[:])}, " ")
	}
	sort.SliceStable(endpoints, func(i, j int) bool { return order(endpoints[i]) < order(endpoints[j]) })
	taken := map[string]bool{}
	for _, e := range endpoints {
		target, ok := e.targets[p.Name]
		if !ok {
			continue
		}
		state, where, what, network, at := "served", e.zone, "-", "", e.addr
		more := []model.Addr{}
		if e.workload != nil {
			if d := e.workload.Details; d != nil && slices.Contains(d.More, e.addr) {
				at = e.workload.Addr
			}
			dual := slices.ContainsFunc(sources, func(s *model.Service) bool { return s.DualStack && s.Registry.Cluster == e.shard.Cluster })
			if d := e.workload.Details; d != nil && dual && at == e.workload.Addr && e.addr.Netip().Is4() && e.shard.Provider == model.Kubernetes {
				for _, a := range append([]model.Addr{e.workload.Addr}, d.More...) {
					if a != e.addr {
						more = append(more, a)
					}
				}
			}
			what = workloadText(e.workload)
			network = e.workload.Placement.Network
			if l := e.workload.Placement.Locality; l != "" {
				where = string(l)
			}
		}
		if e.missing != "" {
			what = "missing " + e.missing
			if e.another {
				what = "another incarnation of " + e.missing
			}
			state = "held"
		} else if e.workload != nil && e.workload.State&model.Finished != 0 || e.flags&(model.EndpointReady|model.EndpointDrained) != model.EndpointReady {
			state = "held"
		} else if place := fmt.Sprintf("%v %d %s", at, target, network); taken[place] {
			state = "shadowed"
		} else {
			taken[place] = true
		}
		lines = append(lines, fmt.Sprintf("endpoint %d/%s %v %v%v:%d %s flags=%d at=%q %s", p.Number, p.Name, e.shard, e.addr, more, target, state, e.flags, where, what))
	}
	return lines
}
