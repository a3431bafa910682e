package aggregate_test

import (
	"cmp"
	"fmt"
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
	// Switches of cross-registration.
	podsToEntries, entriesToServices bool
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
	return &twin{config, map[model.ShardKey]*twinSource{}, map[model.ShardKey]uint64{}, true, true}
}

func (w *twin) apply(b model.Batch) {
	s := w.sources[b.Source]
	if b.Removed {
		if s == nil || b.Epoch >= s.newest {
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
	if b.Epoch == s.newest && r.complete == [model.Kinds]bool{true, true, true} && s.now != s.newest {
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

// twinEndpoint is one address of a service, for each port name one target.
type twinEndpoint struct {
	shard    model.ShardKey
	object   string // slice
	addr     model.Addr
	targets  map[string]uint16
	flags    model.EndpointFlags
	workload *model.WorkloadInstance
	missing  string
	zone     string
}

// view returns the text of every service, by key.
func (w *twin) view() map[string]string {
	definitions := map[model.ServiceKey][]*model.Service{}
	endpoints := map[model.ServiceKey][]twinEndpoint{}
	slicesOf := inForce[*model.EndpointSlice](w, model.Kubernetes, model.KindEndpointSlice)
	pods := inForce[*model.WorkloadInstance](w, model.Kubernetes, model.KindPod)
	entries := inForce[*model.WorkloadInstance](w, model.External, model.KindPod)
	for source, services := range inForce[*model.Service](w, model.Kubernetes, model.KindService) {
		for _, s := range services {
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
			for _, p := range flatten(pods) {
				if w.podsToEntries && chosen(s, p) {
					endpoints[s.Key] = append(endpoints[s.Key], selectedTwin(model.External, "se-"+s.Name, p, targets))
				}
			}
		}
	}
	texts := map[string]string{}
	for key, sources := range definitions {
		texts[key.String()] = w.serviceText(key, sources, endpoints[key])
	}
	return texts
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
			if p.Identity.Namespace == slice.Object.Namespace && p.Name == e.Pod && (e.UID == p.UID || e.UID == model.UID{}) {
				t.workload, t.missing = p, ""
			}
		}
		list = append(list, t)
	}
	return list
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
		case p.Protocol == model.UDP:
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
		if s.Resolution != win.Resolution {
			conflicts = append(conflicts, fmt.Sprintf("conflict resolution: %v, not %v", win.Registry, s.Registry))
		}
		if len(s.VIPs) > 0 {
			lines = append(lines, fmt.Sprintf("vips %s: %v", s.Registry.Cluster, s.VIPs))
		}
	}
	accounts := map[string]bool{}
	for _, e := range endpoints {
		if e.workload != nil && e.workload.Identity.ServiceAccount != "" {
			accounts[e.workload.Identity.Namespace+"/"+e.workload.Identity.ServiceAccount] = true
		}
	}
	lines = append(lines, conflicts...)
	lines = append(lines, fmt.Sprintf("sources %v, %v", names, win.Resolution), fmt.Sprintf("accounts %v", slices.Sorted(maps.Keys(accounts))))
	for _, p := range ports {
		lines = append(lines, fmt.Sprintf("port %v", p))
		lines = append(lines, twinCandidates(p, endpoints)...)
	}
	slices.Sort(lines)
	return key.String() + "\n" + strings.Join(lines, "\n")
}

// twinCandidates renders the endpoints of one port. Among served ones of one
// address, target and network the first wins: pods before WorkloadEntries, then
// by provider and cluster, then by name of the workload, then of the slice.
func twinCandidates(p model.Port, endpoints []twinEndpoint) (lines []string) {
	order := func(e twinEndpoint) string {
		kind, name, provider := "0", "", "0"
		if e.workload != nil {
			name = e.workload.Name
			if e.workload.Identity.Kind == model.WorkloadEntry {
				kind = "1"
			}
		}
		if e.shard.Provider != model.Kubernetes {
			provider = "1"
		}
		return strings.Join([]string{kind, provider, string(e.shard.Cluster), name, e.object}, " ")
	}
	sort.SliceStable(endpoints, func(i, j int) bool { return order(endpoints[i]) < order(endpoints[j]) })
	taken := map[string]bool{}
	for _, e := range endpoints {
		target, ok := e.targets[p.Name]
		if !ok {
			continue
		}
		state, where, what, network := "served", e.zone, "-", ""
		if e.workload != nil {
			what = workloadText(e.workload)
			network = e.workload.Placement.Network
			if l := e.workload.Placement.Locality; l != "" {
				where = string(l)
			}
		}
		if e.missing != "" {
			what = "missing " + e.missing
			state = "held"
		} else if e.flags&model.EndpointReady == 0 || e.flags&model.EndpointTerminating != 0 {
			state = "held"
		} else if place := fmt.Sprintf("%v %d %s", e.addr, target, network); taken[place] {
			state = "shadowed"
		} else {
			taken[place] = true
		}
		lines = append(lines, fmt.Sprintf("endpoint %d/%s %v %v:%d %s flags=%d at=%q %s", p.Number, p.Name, e.shard, e.addr, target, state, e.flags, where, what))
	}
	return lines
}
