package kube

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"tributary/internal/table"
	"tributary/model"
)

// MoveHold is how long an endpoint that leaves one slice, while its pod is
// still there and ready, waits for another slice to take it over.
const MoveHold = 100 * time.Millisecond

// Registry is the Kubernetes registry of one cluster: its services, endpoint
// slices and pods, joined. It lives on the core's goroutine and does no I/O; the
// goroutines that watch the cluster (Watch) send it batches through the core.
type Registry struct {
	shard   model.ShardKey
	rules   Rules
	interns *interns
	tables  *tables // of the epoch in force; nil before the first batch
	staged  *tables // of a newer epoch that is not complete yet; nil if none

	workloadHandlers []model.WorkloadHandler
	selectorHandlers []func(namespace string, selects bool)
	workloads        func(namespace string) iter.Seq[*model.WorkloadInstance]
	selectors        map[string]map[string]bool // namespace -> services that select there

	ignored  uint64 // batches of superseded epochs
	reported bool   // the epoch in force was reported as synced
}

// NewRegistry returns the registry of a cluster. workloads lists the
// WorkloadEntries of a namespace that all clusters know.
func NewRegistry(cluster model.ClusterID, rules Rules, workloads func(namespace string) iter.Seq[*model.WorkloadInstance]) *Registry {
	if rules.SystemNamespace == "" {
		rules.SystemNamespace = DefaultSystemNamespace
	}
	return &Registry{
		rules:     rules,
		shard:     model.ShardKey{Provider: model.Kubernetes, Cluster: cluster},
		interns:   &interns{},
		workloads: workloads,
		selectors: map[string]map[string]bool{},
	}
}

// Shard returns the identity of the registry.
func (r *Registry) Shard() model.ShardKey { return r.shard }

// AppendWorkloadHandler registers h for the pods of this cluster. Those that
// are known already are announced to it at once.
func (r *Registry) AppendWorkloadHandler(h model.WorkloadHandler) {
	r.workloadHandlers = append(r.workloadHandlers, h)
	if r.tables == nil {
		return
	}
	for _, ns := range slices.Sorted(maps.Keys(r.tables.pods)) {
		for w := range r.Workloads(ns) {
			h(nil, w)
		}
	}
}

// AppendSelectorHandler registers h, which is told when a namespace gets its
// first service that selects workloads, and when it loses its last one.
func (r *Registry) AppendSelectorHandler(h func(namespace string, selects bool)) {
	r.selectorHandlers = append(r.selectorHandlers, h)
	for _, ns := range slices.Sorted(maps.Keys(r.selectors)) {
		h(ns, true)
	}
}

func (r *Registry) announce(old, new *model.WorkloadInstance) {
	for _, h := range r.workloadHandlers {
		h(old, new)
	}
}

// WorkloadInstanceHandler is told of a WorkloadEntry, of any cluster: services
// that selected it or select it now are derived again.
func (r *Registry) WorkloadInstanceHandler(old, new *model.WorkloadInstance) {
	if r.tables == nil {
		return // services that come later find it in the shared table
	}
	namespace := cmp.Or(new, old).Identity.Namespace
	for name := range r.selectors[namespace] {
		n := model.NamespacedName{Namespace: namespace, Name: name}
		row := r.tables.services[n]
		if row == nil || row.service == nil {
			continue // goes in this round
		}
		if s := row.service.Selector; old != nil && s.Matches(old.Labels) || new != nil && s.Matches(new.Labels) {
			r.tables.dirty.services[row] |= dirtySelection
		}
	}
}

// Workloads yields the pods of a namespace by name, if it is selected.
func (r *Registry) Workloads(namespace string) iter.Seq[*model.WorkloadInstance] {
	return func(yield func(*model.WorkloadInstance) bool) {
		if r.tables == nil || !r.tables.shows(namespace) {
			return
		}
		pods := r.tables.pods[namespace]
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			if w := pods[name].pod; w != nil && !yield(w) {
				return
			}
		}
	}
}

// Apply takes a batch in and marks what it touches. What an older epoch still
// says is ignored; what a newer one says is staged until it is complete.
func (r *Registry) Apply(b *model.Batch) {
	if r.tables == nil {
		r.tables = newTables(r.shard.Cluster, b.Epoch, r.interns, &r.rules)
		r.tables.onPod = r.announce
	}
	switch {
	case b.Epoch == r.tables.epoch:
		r.tables.apply(b)
	case b.Epoch < r.tables.epoch || r.staged != nil && b.Epoch < r.staged.epoch:
		r.ignored++
	default:
		r.stage(b)
	}
}

// Derive reports every service that the round touched. now is the core's time;
// it decides only how long endpoints that change slices are held.
func (r *Registry) Derive(now time.Time, up model.XDSUpdater) {
	t := r.tables
	if t == nil {
		return
	}
	if !t.pending() {
		return // most registries, in most rounds
	}
	t.derive(clock{now, MoveHold})
	marked := make([]*serviceRow, 0, len(t.dirty.services))
	for row := range t.dirty.services {
		marked = append(marked, row)
	}
	if len(marked) > 1 {
		slices.SortFunc(marked, func(a, b *serviceRow) int { return a.name.Compare(b.name) })
	}
	for _, row := range marked {
		r.report(row, t.dirty.services[row], up)
	}
	t.dirty.services = table.Reset(t.dirty.services)
}

// report derives one service: its definition and its slices by cluster. What is
// as it was is not reported again.
func (r *Registry) report(row *serviceRow, what dirtyService, up model.XDSUpdater) {
	service := row.service
	if !r.tables.shows(row.name.Namespace) {
		service = nil // as if it were not there
	}
	if service == nil != (row.key.Host == "") {
		what |= dirtyEndpoints // it has them from now on, or no longer
	}
	if service != nil {
		row.key = service.Key
	}
	if what&dirtyDefinition != 0 {
		r.noteSelector(row, service)
		if row.key.Host != "" {
			up.SvcUpdate(row.key, service)
		}
	}
	if what&(dirtyDefinition|dirtySelection) != 0 {
		if selected := r.selectWorkloads(service); len(selected)+len(row.selected) > 0 {
			row.selected = selected
			what |= dirtyEndpoints
		}
	}
	if what&dirtyEndpoints != 0 && row.key.Host != "" {
		r.reportSlices(row, service, up)
	}
	if service == nil {
		row.key = model.ServiceKey{}
	}
	if row.service == nil && len(row.slices) == 0 {
		r.tables.dropService(row.name)
	}
}

// reportSlices reports the slices of a service for each cluster that has some,
// and an empty list for each that had some. Without a Service there are none:
// slices alone do not offer a service in a cluster.
func (r *Registry) reportSlices(row *serviceRow, service *model.Service, up model.XDSUpdater) {
	var list []*model.Slice
	if service != nil {
		for _, id := range row.slices {
			if s := r.tables.slices.Get(id).slice; len(s.Endpoints) > 0 {
				list = append(list, s)
			}
		}
		list = append(list, row.selected...)
		if !slices.IsSortedFunc(list, compareSlices) {
			slices.SortFunc(list, compareSlices)
		}
	}
	had := row.shards
	row.shards = nil
	for len(list) > 0 {
		c := list[0].Cluster
		n := 1
		for n < len(list) && list[n].Cluster == c {
			n++
		}
		row.shards = append(row.shards, c)
		up.EDSUpdate(model.ShardKey{Provider: model.Kubernetes, Cluster: c}, row.key, list[:n:n])
		list = list[n:]
	}
	for _, c := range had {
		if !slices.Contains(row.shards, c) {
			up.EDSUpdate(model.ShardKey{Provider: model.Kubernetes, Cluster: c}, row.key, nil)
		}
	}
	if slices.Equal(had, row.shards) {
		row.shards = had
	}
}

// noteSelector keeps the index from namespace to the services that select
// workloads there.
func (r *Registry) noteSelector(row *serviceRow, s *model.Service) {
	if row.selects == selects(s) {
		return
	}
	row.selects = !row.selects
	n := row.name
	in := r.selectors[n.Namespace]
	switch {
	case row.selects:
		if in == nil {
			in = map[string]bool{}
			r.selectors[n.Namespace] = in
			for _, h := range r.selectorHandlers {
				h(n.Namespace, true)
			}
		}
		in[n.Name] = true
	default:
		delete(in, n.Name)
		if len(in) == 0 {
			delete(r.selectors, n.Namespace)
			for _, h := range r.selectorHandlers {
				h(n.Namespace, false)
			}
		}
	}
}

// Next returns when Derive has something to do even if nothing is applied; zero
// if never.
func (r *Registry) Next() time.Time {
	if r.tables == nil {
		return time.Time{}
	}
	return r.tables.nextMove()
}

// Synced returns what the registry holds once every kind of the epoch in force
// had a complete snapshot, once an epoch.
func (r *Registry) Synced() (model.Synced, bool) {
	if r.tables == nil || r.reported || !r.tables.synced() {
		return model.Synced{}, false
	}
	r.reported = true
	return r.Counts(), true
}

// Counts returns how many objects the registry holds.
func (r *Registry) Counts() model.Synced {
	c := model.Synced{Source: r.shard}
	if r.tables != nil {
		c = r.tables.counts
		c.Source, c.Epoch, c.Slices = r.shard, r.tables.epoch, len(r.tables.sliceIDs)
	}
	return c
}
