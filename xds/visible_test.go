package xds

import (
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"tributary/model"
)

// TestVisibility: a client is told of what it is shown, and of nothing else: not
// even that something it has never seen went.
func TestVisibility(t *testing.T) {
	w := newWorld(10)
	limits := DefaultLimits()
	render := newRenderer(t)
	s := newSession(true, &limits)
	ask := func(r request) {
		t.Helper()
		if _, err := s.request(r); err != nil {
			t.Fatal(err)
		}
	}
	ask(request{node: testNode, url: ClusterType})
	web := key("web")
	show := func(v model.Visibility) {
		w.defineHTTP(web, 80)
		w.services[web].definition.Winner.Visibility = v
	}
	other := model.VisibleIn("other")
	for _, step := range []struct {
		what    string
		change  func()
		added   []string
		removed []string
	}{
		{"shown to others", func() { show(other) }, nil, nil},
		{"and once more", func() { show(model.VisibleIn("other", "third")) }, nil, nil},
		{"shown to the client as well", func() { show(model.VisibleIn("default", "other")) }, []string{"web:80"}, nil},
		{"shown to all: the same to the client", func() { show(model.Everywhere) }, []string{"web:80"}, nil},
		{"hidden", func() { show(model.Nowhere) }, nil, []string{"web:80"}},
		{"changed while hidden", func() { show(other) }, nil, nil},
		{"gone while hidden", func() { w.remove(web) }, nil, nil},
		{"back", func() { show(model.Everywhere) }, []string{"web:80"}, nil},
		{"gone", func() { w.remove(web) }, nil, []string{"web:80"}},
		{"back for others", func() { show(other) }, nil, nil},
	} {
		step.change()
		v := &view{renderer: render, snapshot: w.commit(), node: s.node}
		r, err := s.next(v)
		if err != nil {
			t.Fatal(err)
		}
		var added, removed []string
		if r != nil {
			for _, n := range resourceNames(r.resources) {
				added = append(added, shortName(n))
			}
			for _, n := range r.removed {
				removed = append(removed, shortName(n))
			}
			ask(request{url: ClusterType, nonce: r.nonce})
		}
		if !slices.Equal(added, step.added) || !slices.Equal(removed, step.removed) {
			t.Errorf("%s: told %v, removed %v; want %v and %v", step.what, added, removed, step.added, step.removed)
		}
	}
}

// TestNodeLocal: each client is given the endpoints on its own node.
func TestNodeLocal(t *testing.T) {
	w := newWorld(0)
	agent := key("agent")
	w.defineHTTP(agent, 80)
	w.services[agent].definition.Winner.NodeLocal = true
	w.place(agent, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	for i, node := range []string{"n1", "n2", ""} {
		e := &w.services[agent].shards[0].Slices[0].Endpoints[i]
		if node != "" {
			e.Workload = &model.WorkloadInstance{Name: "p", Identity: &model.Identity{Cluster: "c1"}, Placement: &model.Placement{Node: node}}
		}
	}
	snapshot := w.commit()
	render := newRenderer(t)
	for _, c := range []struct {
		cluster, node string
		want          []string
	}{
		{"c1", "n1", []string{"10.0.0.1"}}, {"c1", "n2", []string{"10.0.0.2"}}, {"c1", "n3", nil}, {"c1", "", nil}, {"c2", "n1", nil}, {"c1", "n1", []string{"10.0.0.1"}},
	} {
		md, err := structpb.NewStruct(map[string]any{"NODE_NAME": c.node, "CLUSTER_ID": c.cluster})
		if err != nil {
			t.Fatal(err)
		}
		n := newNode(&corev3.Node{Id: testNode.Id, Metadata: md})
		v := &view{renderer: render, snapshot: snapshot, node: &n}
		if got := addresses(t, v.get(EndpointType, longName("agent:80")).Body()); !slices.Equal(got, c.want) {
			t.Errorf("node %q of %s: %v, want %v", c.node, c.cluster, got, c.want)
		}
	}
}
