package kube

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tributary/model"
)

// DefaultSystemNamespace is the namespace of a mesh unless set otherwise.
const DefaultSystemNamespace = "istio-system"

// Rules are settings of a registry.
type Rules struct {
	// SystemNamespace is the one whose label tells the network of its cluster;
	// default DefaultSystemNamespace.
	SystemNamespace string
	// Discovery selects namespaces; what is in others is neither served nor
	// announced. The zero value selects all.
	Discovery Selectors
}

// Selectors select namespaces by their labels: those that one of them matches,
// or all if there are none.
type Selectors struct{ any []labels.Selector }

// ParseSelectors reads label selectors as they stand in objects. An empty one
// matches everything.
func ParseSelectors(list []metav1.LabelSelector) (s Selectors, err error) {
	for i := range list {
		one, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			return Selectors{}, fmt.Errorf("selector %d: %w", i+1, err)
		}
		s.any = append(s.any, one)
	}
	return s, nil
}

func (s Selectors) all() bool { return len(s.any) == 0 }

func (s Selectors) match(l model.Labels) bool {
	return s.all() || slices.ContainsFunc(s.any, func(one labels.Selector) bool { return one.Matches(labelSet{l}) })
}

// labelSet lets selectors read packed labels.
type labelSet struct{ model.Labels }

// Has, Get and Lookup implement labels.Labels.
func (l labelSet) Has(key string) bool              { _, ok := l.Labels.Get(key); return ok }
func (l labelSet) Get(key string) string            { v, _ := l.Labels.Get(key); return v }
func (l labelSet) Lookup(key string) (string, bool) { return l.Labels.Get(key) }

// namespaceRow exists while there is a namespace.
type namespaceRow struct {
	labels     model.Labels
	shown      bool // selected
	generation uint32
}

// setNamespace puts a namespace, nil for none, in place of the one that was
// there. What is in it appears, disappears or stays.
func (t *tables) setNamespace(name string, n *model.Namespace) {
	r := t.namespaces[name]
	if r == nil && n == nil {
		return
	}
	shown := t.shows(name)
	var was model.Labels
	if r != nil {
		was = r.labels
	}
	if n == nil {
		delete(t.namespaces, name)
	} else {
		if r == nil {
			r = &namespaceRow{}
			t.namespaces[name] = r
		}
		r.generation = t.generation[model.KindNamespace]
		r.labels = model.PackedLabels(t.interns.labels.Intern(n.Labels.Packed()))
		r.shown = t.rules.Discovery.match(n.Labels)
	}
	t.interns.labels.Release(was.Packed())
	if now := t.shows(name); now != shown {
		t.reveal(name, now)
	}
	if name == t.rules.SystemNamespace {
		network := ""
		if n != nil {
			network, _ = n.Labels.Get(networkLabel)
		}
		t.setNetwork(network)
	}
}

// shows reports whether what is in a namespace is served and announced. Until
// it is known which namespaces there are, nothing is that has to be selected. A
// namespace that is not known then has the label that every one has.
func (t *tables) shows(namespace string) bool {
	if t.rules.Discovery.all() {
		return true
	}
	if !t.complete[model.KindNamespace] {
		return false
	}
	if r := t.namespaces[namespace]; r != nil {
		return r.shown
	}
	return t.rules.Discovery.match(model.NewLabels(map[string]string{corev1.LabelMetadataName: namespace}))
}

// revealAll shows what is selected once it is known which namespaces there are.
func (t *tables) revealAll() {
	if t.rules.Discovery.all() {
		return
	}
	for _, ns := range sortedUnion(t.inNamespace, t.pods) {
		if t.shows(ns) {
			t.reveal(ns, true)
		}
	}
}

// reveal marks all services of a namespace that appears or disappears, and
// announces its pods or takes them back.
func (t *tables) reveal(namespace string, shown bool) {
	for name := range t.inNamespace[namespace] {
		t.dirty.services[t.services[model.NamespacedName{Namespace: namespace, Name: name}]] |= dirtyDefinition
	}
	if t.onPod == nil {
		return
	}
	pods := t.pods[namespace]
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		switch w := pods[name].pod; {
		case w == nil:
		case shown:
			t.onPod(nil, w)
		default:
			t.onPod(w, nil)
		}
	}
}

// addService makes the row of a service.
func (t *tables) addService(n model.NamespacedName) *serviceRow {
	r := &serviceRow{name: n}
	t.services[n] = r
	if !t.rules.Discovery.all() {
		in := t.inNamespace[n.Namespace]
		if in == nil {
			in = map[string]struct{}{}
			t.inNamespace[n.Namespace] = in
		}
		in[n.Name] = struct{}{}
	}
	return r
}

func (t *tables) dropService(n model.NamespacedName) {
	delete(t.services, n)
	if in := t.inNamespace[n.Namespace]; in != nil {
		if delete(in, n.Name); len(in) == 0 {
			delete(t.inNamespace, n.Namespace)
		}
	}
}
