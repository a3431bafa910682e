package kube_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/clusters/kube"
	"tributary/model"
)

// pods is a registry with the pods that it announced, and how often it did.
type pods struct {
	*kube.Registry
	known     map[string]*model.WorkloadInstance
	announced int
}

func newPods(t *testing.T, rules kube.Rules) *pods {
	p := &pods{Registry: kube.NewRegistry("a", rules, noEntries), known: map[string]*model.WorkloadInstance{}}
	p.AppendWorkloadHandler(func(old, new *model.WorkloadInstance) {
		p.announced++
		if old != nil {
			if !p.known[old.Name].Equal(old) {
				t.Fatalf("%s was never announced as it is said to have been", old.Name)
			}
			delete(p.known, old.Name)
		}
		if new != nil {
			p.known[new.Name] = new
		}
	})
	return p
}

func (p *pods) say(rows ...any) {
	for _, row := range rows {
		b := model.Batch{Epoch: 1}
		switch r := row.(type) {
		case *model.WorkloadInstance:
			b.Kind, b.Workloads = model.KindPod, []*model.WorkloadInstance{r}
		case *model.Node:
			b.Kind, b.Nodes = model.KindNode, []*model.Node{r}
		case *model.Namespace:
			b.Kind, b.Namespaces = model.KindNamespace, []*model.Namespace{r}
		case model.Batch:
			b = r
			b.Epoch = 1
		}
		p.Apply(&b)
	}
}

func pod(name, node string, own model.Placement) *model.WorkloadInstance {
	own.Node = node
	return &model.WorkloadInstance{Name: name, Placement: &own, Identity: &model.Identity{Cluster: "a", Namespace: "n"}}
}

// TestPlacement: where a pod is follows its own labels, then its node and its
// cluster, whichever of them changes, and nothing else is touched.
func TestPlacement(t *testing.T) {
	p := newPods(t, kube.Rules{SystemNamespace: "mesh"})
	check := func(when string, announced int, want ...string) {
		t.Helper()
		var got []string
		for _, name := range []string{"p", "q", "r"} {
			if w := p.known[name]; w != nil {
				got = append(got, name+" "+string(w.Placement.Locality)+" "+w.Placement.Network)
			}
		}
		if !slices.Equal(got, want) || p.announced != announced {
			t.Errorf("%s: %q after %d changes of pods; want %q after %d", when, got, p.announced, want, announced)
		}
		p.announced = 0
	}
	node := func(name, locality string) *model.Node {
		return &model.Node{Name: name, Locality: model.Locality(locality)}
	}
	mesh := func(network string) *model.Namespace {
		return &model.Namespace{Name: "mesh", Labels: model.NewLabels(map[string]string{"topology.istio.io/network": network})}
	}
	p.say(pod("p", "n1", model.Placement{}), pod("q", "n1", model.Placement{Locality: "own", Network: "own"}), pod("r", "n2", model.Placement{}))
	check("before the nodes", 3, "p  ", "q own own", "r  ")
	p.say(node("n1", "r1"))
	check("a node", 1, "p r1 ", "q own own", "r  ")
	p.say(node("n1", "r1"), node("n3", "r3"))
	check("nothing new", 0, "p r1 ", "q own own", "r  ")
	p.say(mesh("net"))
	check("a network", 2, "p r1 net", "q own own", "r  net")
	p.say(pod("q", "n1", model.Placement{}))
	check("no labels any more", 1, "p r1 net", "q r1 net", "r  net")
	p.say(node("n1", "r2"), mesh("net2"))
	check("node and network change", 5, "p r2 net2", "q r2 net2", "r  net2")
	p.say(pod("q", "n1", model.Placement{Locality: "r2", Network: "net2"}))
	check("labels that say the same", 0, "p r2 net2", "q r2 net2", "r  net2")
	p.say(node("n1", "r4"), mesh("net4"))
	check("the labels stay", 3, "p r4 net4", "q r2 net2", "r  net4")
	p.say(pod("p", "n3", model.Placement{}), node("n1", "r5"))
	check("another node", 1, "p r3 net4", "q r2 net2", "r  net4")
	p.say(model.Batch{Kind: model.KindNode, SnapshotStart: true, SnapshotEnd: true, Nodes: []*model.Node{node("n2", "r6")}},
		model.Batch{Kind: model.KindNamespace, SnapshotStart: true, SnapshotEnd: true})
	check("other nodes, no namespace", 4, "p  ", "q r2 net2", "r r6 ")
	for _, name := range []string{"p", "q", "r"} {
		p.say(model.Batch{Kind: model.KindPod, Deletes: []model.NamespacedName{{Namespace: "n", Name: name}}})
	}
	check("no pods", 3)
	p.say(model.Batch{Kind: model.KindNode, Deletes: []model.NamespacedName{{Name: "n2"}, {Name: "n9"}}})
	if n := kube.Sizes(p.Registry); n["nodes"]+n["pods on nodes"]+n["placements"] != 0 {
		t.Errorf("left: %v", n)
	}
}

// TestDiscovery: pods of a namespace come and go with its labels.
func TestDiscovery(t *testing.T) {
	selectors, err := kube.ParseSelectors([]metav1.LabelSelector{
		{MatchLabels: map[string]string{"mesh": "in"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{"n", "m"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := newPods(t, kube.Rules{Discovery: selectors})
	check := func(when string, want bool) {
		t.Helper()
		listed := 0
		for range p.Workloads("n") {
			listed++
		}
		if got := p.known["p"] != nil; got != want || (listed > 0) != want {
			t.Errorf("%s: announced %v, listed %d, want %v", when, got, listed, want)
		}
	}
	namespace := func(labels map[string]string) *model.Namespace {
		return &model.Namespace{Name: "n", Labels: model.NewLabels(labels)}
	}
	p.say(pod("p", "", model.Placement{}))
	check("before namespaces are known", false)
	p.say(namespace(map[string]string{"mesh": "in"}))
	check("before all are", false)
	p.say(model.Batch{Kind: model.KindNamespace, SnapshotEnd: true})
	check("selected", true)
	p.say(namespace(map[string]string{"mesh": "out"}))
	check("not selected", false)
	p.say(pod("p", "x", model.Placement{}))
	check("changed while hidden", false)
	p.say(namespace(map[string]string{"kubernetes.io/metadata.name": "n"}))
	check("selected by name", true)
	p.say(namespace(nil))
	check("without labels", false)
	p.say(model.Batch{Kind: model.KindNamespace, Deletes: []model.NamespacedName{{Name: "n"}}})
	check("a namespace that nobody knows has its name", true)
	p.say(namespace(nil))
	p.announced = 0
	for k := range model.Kinds {
		b := model.Batch{Kind: k, Epoch: 2, SnapshotStart: true, SnapshotEnd: true}
		switch k {
		case model.KindPod:
			b.Workloads = []*model.WorkloadInstance{pod("p", "y", model.Placement{})}
		case model.KindNamespace:
			b.Namespaces = []*model.Namespace{namespace(nil)}
		}
		p.Apply(&b)
	}
	if p.announced > 0 {
		t.Errorf("%d pods that are hidden before and after a rotation were announced", p.announced)
	}
	p.Apply(&model.Batch{Kind: model.KindNamespace, Epoch: 2, Namespaces: []*model.Namespace{namespace(map[string]string{"mesh": "in"})}})
	check("selected with a new credential", true)
	p.Close()
	check("closed", false)
	if _, err := kube.ParseSelectors([]metav1.LabelSelector{{}, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}); err == nil {
		t.Error("a selector with an unknown operator is taken")
	}
}
