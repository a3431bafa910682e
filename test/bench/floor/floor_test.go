package main

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"tributary/test/bench/dataset"
	"tributary/test/bench/fleet"
)

// The loop that the benchmark measures, with the floor as server and clusters
// that are not real: what is filled in is served, and a change arrives at every
// stream.
func TestAChangeArrivesEverywhere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var clusters []dataset.Cluster
	for i := range 2 {
		clusters = append(clusters, dataset.Cluster{ID: fmt.Sprintf("c%d", i), Client: fake.NewClientset()})
	}
	data, err := dataset.Fill(ctx, dataset.Shape{Clusters: 2, Namespaces: 2, Services: 5, Endpoints: 3, Pods: true}, clusters)
	if err != nil {
		t.Fatal(err)
	}
	s, err := watch(ctx, clusters)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, l) }()

	f := fleet.New(fleet.Options{
		Address: l.Addr().String(), Delta: true, Streams: 3, Names: data.Names(), ClusterIDs: []string{"c0", "c1"}, Namespace: "bench-0",
	})
	for _, resume := range []bool{false, true} {
		f.Connect(ctx, 10*time.Millisecond, resume)
		if _, _, err := f.Served(ctx); err != nil {
			t.Fatal(err)
		}
		for cluster := range 2 {
			ip := data.Fresh()
			c := f.Expect(4, cluster, ip)
			if err := data.Replace(ctx, 4, cluster, ip, c.Begin); err != nil {
				t.Fatal(err)
			}
			if err := f.Wait(ctx, c); err != nil {
				t.Fatal(err)
			}
			if first, last, ok := c.Times(); !ok || first <= 0 || last < first {
				t.Errorf("first after %v, last after %v, everywhere %v", first, last, ok)
			}
		}
		f.Disconnect()
	}
	if err := data.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
