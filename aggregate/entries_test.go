package aggregate_test

import (
	"iter"
	"maps"
	"slices"
	"time"

	"tributary/model"
)

// entries is a registry of ServiceEntries and WorkloadEntries, as simple as the
// Registry interface allows: it derives all when anything is dirty. Batches of
// kind Pod carry its WorkloadEntries, batches of kind Service its services,
// which select pods.
type entries struct {
	key      model.ShardKey
	pods     func(namespace string) iter.Seq[*model.WorkloadInstance]
	services map[model.NamespacedName]*model.Service
	rows     map[model.NamespacedName]*model.WorkloadInstance
	dirty    bool
	calls    int // of WorkloadInstanceHandler

	workloadHandlers []model.WorkloadHandler
	selectorHandlers []func(string, bool)
	selecting        map[string]bool
	reported         map[model.ServiceKey]map[model.ShardKey]bool
}

func newEntries(key model.ShardKey, pods func(string) iter.Seq[*model.WorkloadInstance]) *entries {
	return &entries{
		key: key, pods: pods, services: map[model.NamespacedName]*model.Service{}, rows: map[model.NamespacedName]*model.WorkloadInstance{},
		selecting: map[string]bool{}, reported: map[model.ServiceKey]map[model.ShardKey]bool{},
	}
}

func (s *entries) Apply(b *model.Batch) {
	for _, svc := range b.Services {
		s.services[model.NamespacedName{Namespace: svc.Key.Namespace, Name: svc.Name}] = svc
		s.dirty = true
	}
	for _, w := range b.Workloads {
		s.set(model.NamespacedName{Namespace: w.Identity.Namespace, Name: w.Name}, w)
	}
	for _, n := range b.Deletes {
		if b.Kind == model.KindPod {
			s.set(n, nil)
		} else {
			delete(s.services, n)
			s.dirty = true
		}
	}
}

func (s *entries) set(n model.NamespacedName, w *model.WorkloadInstance) {
	old := s.rows[n]
	if old.Equal(w) {
		return
	}
	if w == nil {
		delete(s.rows, n)
	} else {
		s.rows[n] = w
	}
	for _, h := range s.workloadHandlers {
		h(old, w)
	}
}

func (s *entries) Derive(_ time.Time, up model.XDSUpdater) {
	if !s.dirty {
		return
	}
	s.dirty = false
	selecting := map[string]bool{}
	reported := map[model.ServiceKey]map[model.ShardKey]bool{}
	for _, svc := range s.services {
		up.SvcUpdate(svc.Key, svc)
		reported[svc.Key] = map[model.ShardKey]bool{}
		if svc.Selector.Empty() {
			continue
		}
		selecting[svc.Key.Namespace] = true
		ports := make([]model.SlicePort, 0, len(svc.Ports))
		for _, p := range svc.Ports {
			ports = append(ports, model.SlicePort{Name: p.Name, Number: p.Number})
		}
		found := map[model.ClusterID]*model.Slice{}
		for w := range s.pods(svc.Key.Namespace) {
			if !svc.Selector.Matches(w.Labels) || !w.State.Serving() || w.Addr.IsZero() {
				continue
			}
			slice := found[w.Identity.Cluster]
			if slice == nil {
				slice = &model.Slice{Cluster: w.Identity.Cluster, Ports: ports,
					Object: model.NamespacedName{Namespace: svc.Key.Namespace, Name: "se-" + svc.Name}}
				found[w.Identity.Cluster] = slice
			}
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: w.Addr, Workload: w, Locality: 255, Flags: model.EndpointReady | model.EndpointServing})
			if account := w.Identity.Namespace + "/" + w.Identity.ServiceAccount; w.Identity.ServiceAccount != "" && !slices.Contains(slice.Accounts, account) {
				slice.Accounts = append(slice.Accounts, account)
			}
		}
		for c, slice := range found {
			slices.SortStableFunc(slice.Endpoints, func(a, b model.Endpoint) int { return a.Addr.Compare(b.Addr) })
			slices.Sort(slice.Accounts)
			shard := model.ShardKey{Provider: s.key.Provider, Cluster: c}
			reported[svc.Key][shard] = true
			up.EDSUpdate(shard, svc.Key, []*model.Slice{slice})
		}
	}
	for key, had := range s.reported {
		for shard := range had {
			if !reported[key][shard] {
				up.EDSUpdate(shard, key, nil)
			}
		}
		if reported[key] == nil {
			up.SvcUpdate(key, nil)
		}
	}
	s.reported = reported
	for ns := range selecting {
		if !s.selecting[ns] {
			s.tell(ns, true)
		}
	}
	for ns := range s.selecting {
		if !selecting[ns] {
			s.tell(ns, false)
		}
	}
	s.selecting = selecting
}

func (s *entries) tell(namespace string, selects bool) {
	for _, h := range s.selectorHandlers {
		h(namespace, selects)
	}
}

func (s *entries) Next() time.Time              { return time.Time{} }
func (s *entries) Synced() (model.Synced, bool) { return model.Synced{}, false }

func (s *entries) Close() {
	for n := range maps.Clone(s.rows) {
		s.set(n, nil)
	}
	clear(s.services)
	s.dirty = true
}

func (s *entries) AppendWorkloadHandler(h model.WorkloadHandler) {
	s.workloadHandlers = append(s.workloadHandlers, h)
	for _, w := range s.rows {
		h(nil, w)
	}
}

func (s *entries) WorkloadInstanceHandler(_, _ *model.WorkloadInstance) {
	s.calls++
	s.dirty = true
}

func (s *entries) AppendSelectorHandler(h func(string, bool)) {
	s.selectorHandlers = append(s.selectorHandlers, h)
	for ns := range s.selecting {
		h(ns, true)
	}
}

func (s *entries) Workloads(namespace string) iter.Seq[*model.WorkloadInstance] {
	return func(yield func(*model.WorkloadInstance) bool) {
		for _, n := range slices.SortedFunc(maps.Keys(s.rows), model.NamespacedName.Compare) {
			if n.Namespace == namespace && !yield(s.rows[n]) {
				return
			}
		}
	}
}
