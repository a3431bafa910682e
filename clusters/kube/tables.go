package kube

import (
	"hash/maphash"
	"slices"
	"time"

	"tributary/internal/table"
	"tributary/model"
)

// tables is what one epoch of a cluster has said: its inputs and the postings
// that join them. A slice row is stored joined to its pods, and its
// input can be read back from it, so endpoints are held once.
type tables struct {
	epoch    uint64
	cluster  model.ClusterID
	interns  *interns
	services map[model.NamespacedName]*serviceRow
	slices   table.Rows[sliceRow]
	sliceIDs map[model.NamespacedName]uint32
	pods     map[string]map[string]*podRow // namespace, name

	rules       *Rules
	nodes       map[string]*nodeRow
	namespaces  map[string]*namespaceRow
	inNamespace map[string]map[string]struct{} // services of each, if namespaces are selected
	network     string                         // of pods that name none

	// generation counts the snapshots of a kind; a row that a snapshot has not
	// named by its end has an older one and goes.
	generation [model.Kinds]uint32
	complete   [model.Kinds]bool
	counts     model.Synced

	dirty  dirty
	moves  moves
	round  uint64       // counts derive
	refs   []uint64     // scratch of joinEndpoints
	warmed uint64       // see warm
	seed   maphash.Seed // see reference

	// adopt is set while an epoch is staged: the tables in force, whose equal
	// workloads are taken over so that their slices stay equal too.
	adopt *tables
	// onPod is called with each pod that changes; nil while staged.
	onPod model.WorkloadHandler
}

// interns is shared by all epochs of a registry, so that equal workloads of two
// epochs have equal pointers.
type interns struct {
	labels     table.Strings
	identities table.Values[model.Identity]
	placements table.Values[model.Placement]
}

// serviceRow exists while there is a definition or a slice.
type serviceRow struct {
	name       model.NamespacedName
	service    *model.Service // nil: slices only
	slices     table.IDs
	generation uint32

	// selected is what the service has by selection of WorkloadEntries.
	selected []*model.Slice

	// What was reported last: under which key, and for which clusters there
	// were slices, sorted.
	key     model.ServiceKey
	shards  []model.ClusterID
	selects bool // it is in the index of selectors
}

type sliceRow struct {
	slice      *model.Slice
	service    string      // in the namespace of the slice; "" until it was joined
	of         *serviceRow // of that service; nil if it is ""
	generation uint32
	copied     uint64   // the round whose derive has copied slice: nobody else has it yet
	refs       []uint64 // what each endpoint that is not moving refers to: see reference
	gone       bool     // deleted, but with endpoints that are moving
}

// podRow exists while there is a pod or a slice that refers to it.
type podRow struct {
	pod        *model.WorkloadInstance // nil: not known (yet)
	missing    *model.WorkloadInstance // stands for it in rows while it is not known
	slices     table.IDs               // slices with an endpoint that refers to it
	generation uint32
	at         uint32 // see placement.go
}

// dirty is what the batches of a round touched, for derive.
type dirty struct {
	services map[*serviceRow]dirtyService
	// pods holds, for each pod that changed, what it was before the round.
	pods map[*podRow]podChange
	// slices holds the newest input of each slice that changed; nil means
	// deleted.
	slices map[model.NamespacedName]*model.EndpointSlice
}

type podChange struct {
	name model.NamespacedName
	old  *model.WorkloadInstance
}

type dirtyService uint8

const (
	dirtyEndpoints  dirtyService = 1 << iota // of its slices
	dirtySelection                           // its WorkloadEntries
	dirtyDefinition                          // all of it
)

func newTables(cluster model.ClusterID, epoch uint64, in *interns, rules *Rules) *tables {
	return &tables{
		epoch: epoch, cluster: cluster, interns: in, rules: rules, seed: maphash.MakeSeed(),
		services: map[model.NamespacedName]*serviceRow{},
		sliceIDs: map[model.NamespacedName]uint32{},
		pods:     map[string]map[string]*podRow{},
		nodes:    map[string]*nodeRow{}, namespaces: map[string]*namespaceRow{}, inNamespace: map[string]map[string]struct{}{},
		dirty: dirty{
			services: map[*serviceRow]dirtyService{},
			pods:     map[*podRow]podChange{},
			slices:   map[model.NamespacedName]*model.EndpointSlice{},
		},
		moves: moves{due: map[move]time.Time{}, held: map[uint32][]model.Addr{}},
	}
}

// apply writes the rows of b and marks what they touch. Nothing is derived.
func (t *tables) apply(b *model.Batch) {
	if b.SnapshotStart {
		t.generation[b.Kind]++
	}
	for _, s := range b.Services {
		t.setService(model.NamespacedName{Namespace: s.Key.Namespace, Name: s.Name}, s)
	}
	for _, s := range b.Slices {
		id, known := t.sliceIDs[s.Object]
		if !known {
			id = t.slices.Add(sliceRow{slice: &model.Slice{Cluster: t.cluster, Object: s.Object}})
			t.sliceIDs[s.Object] = id
		}
		t.slices.Get(id).generation = t.generation[model.KindEndpointSlice]
		t.dirty.slices[s.Object] = s
	}
	for _, w := range b.Workloads {
		t.setPod(model.NamespacedName{Namespace: w.Identity.Namespace, Name: w.Name}, w)
	}
	for _, n := range b.Nodes {
		t.setNode(n.Name, n)
	}
	for _, n := range b.Namespaces {
		t.setNamespace(n.Name, n)
	}
	for _, n := range b.Deletes {
		t.delete(b.Kind, n)
	}
	if b.SnapshotEnd {
		t.sweep(b.Kind)
		first := !t.complete[b.Kind]
		if t.complete[b.Kind] = true; first && b.Kind == model.KindNamespace {
			t.revealAll()
		}
	}
}

func (t *tables) delete(kind model.Kind, n model.NamespacedName) {
	switch kind {
	case model.KindService:
		t.setService(n, nil)
	case model.KindEndpointSlice:
		if _, ok := t.sliceIDs[n]; ok {
			t.dirty.slices[n] = nil
		}
	case model.KindPod:
		t.setPod(n, nil)
	case model.KindNode:
		t.setNode(n.Name, nil)
	case model.KindNamespace:
		t.setNamespace(n.Name, nil)
	}
}

// sweep deletes the rows of a kind that its snapshot has not named.
func (t *tables) sweep(kind model.Kind) {
	var unnamed []model.NamespacedName
	now := t.generation[kind]
	switch kind {
	case model.KindService:
		for n, r := range t.services {
			if r.service != nil && r.generation != now {
				unnamed = append(unnamed, n)
			}
		}
	case model.KindEndpointSlice:
		for n, id := range t.sliceIDs {
			if t.slices.Get(id).generation != now {
				unnamed = append(unnamed, n)
			}
		}
	case model.KindPod:
		for ns, pods := range t.pods {
			for name, r := range pods {
				if r.pod != nil && r.generation != now {
					unnamed = append(unnamed, model.NamespacedName{Namespace: ns, Name: name})
				}
			}
		}
	case model.KindNode:
		for name, r := range t.nodes {
			if r.known && r.generation != now {
				unnamed = append(unnamed, model.NamespacedName{Name: name})
			}
		}
	case model.KindNamespace:
		for name, r := range t.namespaces {
			if r.generation != now {
				unnamed = append(unnamed, model.NamespacedName{Name: name})
			}
		}
	}
	slices.SortFunc(unnamed, model.NamespacedName.Compare)
	for _, n := range unnamed {
		t.delete(kind, n)
	}
}

func (t *tables) setService(n model.NamespacedName, s *model.Service) {
	r := t.services[n]
	if r == nil {
		if s == nil {
			return
		}
		r = t.addService(n)
	}
	r.generation = t.generation[model.KindService]
	if s == nil && r.service != nil {
		t.counts.Services--
	} else if s != nil && r.service == nil {
		t.counts.Services++
	}
	if !r.service.Equal(s) {
		t.dirty.services[r] |= dirtyDefinition
	}
	if s != nil {
		c := *s
		c.Selector = model.PackedLabels(t.interns.labels.Intern(s.Selector.Packed()))
		s = &c
	}
	if r.service != nil {
		t.interns.labels.Release(r.service.Selector.Packed())
	}
	r.service = s
}

func (t *tables) setPod(n model.NamespacedName, w *model.WorkloadInstance) {
	r := t.pods[n.Namespace][n.Name]
	if r == nil {
		if w == nil {
			return
		}
		r = t.addPod(n)
	}
	r.generation = t.generation[model.KindPod]
	if w == nil {
		if r.pod != nil {
			t.replacePod(n, r, nil)
		}
		return
	}
	r.at &= placeMask
	if w.Placement.Locality != "" {
		r.at |= ownLocality
	}
	if w.Placement.Network != "" {
		r.at |= ownNetwork
	}
	var p model.Placement
	if c := t.placed(*w, &p); !r.pod.Equal(&c) {
		t.replacePod(n, r, &c)
	}
}

// replacePod puts w, nil for none, in place of the pod of r.
func (t *tables) replacePod(n model.NamespacedName, r *podRow, next *model.WorkloadInstance) {
	old := r.pod
	var w *model.WorkloadInstance
	if next != nil {
		name := n.Name
		if old != nil {
			name = old.Name
		} else if r.missing != nil {
			name = r.missing.Name // the rows have it already
		}
		w = t.internWorkload(next, name)
		if t.adopt != nil {
			if a := t.adopt.pods[n.Namespace][n.Name]; a != nil && a.pod.Equal(w) {
				w = a.pod // its interned parts are those of w
			}
		}
	}
	if _, marked := t.dirty.pods[r]; !marked {
		t.dirty.pods[r] = podChange{n, old}
	}
	t.noteNode(r, w)
	if old != nil {
		t.counts.Workloads--
		t.releaseWorkload(old)
	}
	if w != nil {
		t.counts.Workloads++
	}
	r.pod = w
	if w != nil {
		r.missing = nil
	}
	if t.onPod != nil && t.shows(n.Namespace) {
		t.onPod(old, w)
	}
}

func (t *tables) addPod(n model.NamespacedName) *podRow {
	pods := t.pods[n.Namespace]
	if pods == nil {
		pods = map[string]*podRow{}
		t.pods[n.Namespace] = pods
	}
	r := &podRow{}
	pods[n.Name] = r
	return r
}

// dropPod forgets a row that neither a pod nor a slice needs.
func (t *tables) dropPod(n model.NamespacedName, r *podRow) {
	if r.pod != nil || len(r.slices) > 0 {
		return
	}
	pods := t.pods[n.Namespace]
	if pods[n.Name] != r {
		return
	}
	delete(pods, n.Name)
	if len(pods) == 0 {
		delete(t.pods, n.Namespace)
	}
}

// internWorkload returns w with its labels, identity and placement shared, and
// with its name in the copy that is there.
func (t *tables) internWorkload(w *model.WorkloadInstance, name string) *model.WorkloadInstance {
	return &model.WorkloadInstance{
		Name: name, UID: w.UID, Addr: w.Addr, Details: w.Details, State: w.State,
		Labels:    model.PackedLabels(t.interns.labels.Intern(w.Labels.Packed())),
		Identity:  t.interns.identities.Intern(*w.Identity),
		Placement: t.interns.placements.Intern(*w.Placement),
	}
}

func (t *tables) releaseWorkload(w *model.WorkloadInstance) {
	t.interns.labels.Release(w.Labels.Packed())
	t.interns.identities.Release(w.Identity)
	t.interns.placements.Release(w.Placement)
}

// release gives back what the tables hold of the shared interns. The tables
// are not usable afterwards.
func (t *tables) release() {
	for _, pods := range t.pods {
		for _, r := range pods {
			if r.pod != nil {
				t.releaseWorkload(r.pod)
			}
		}
	}
	for _, r := range t.services {
		if r.service != nil {
			t.interns.labels.Release(r.service.Selector.Packed())
		}
	}
	for _, r := range t.namespaces {
		t.interns.labels.Release(r.labels.Packed())
	}
}

// pending reports whether derive has something to do.
func (t *tables) pending() bool {
	d := &t.dirty
	return len(d.services)+len(d.slices)+len(d.pods)+len(t.moves.due) > 0
}

// synced reports whether every kind had a complete snapshot.
func (t *tables) synced() bool { return !slices.Contains(t.complete[:], false) }
