package shards_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tributary/model"
	"tributary/shards"
)

func workload(kind model.WorkloadKind, cluster model.ClusterID, name, network string) *model.WorkloadInstance {
	return &model.WorkloadInstance{Name: name, Identity: &model.Identity{Cluster: cluster, Kind: kind}, Placement: &model.Placement{Network: network}}
}

func sliceOf(name string, ports []model.SlicePort, endpoints ...model.Endpoint) *model.Slice {
	return &model.Slice{Object: model.NamespacedName{Name: name}, Ports: ports, Endpoints: endpoints}
}

// TestShadowing: of what could be served at one address, port and network one is.
func TestShadowing(t *testing.T) {
	const ready = model.EndpointReady
	http := []model.SlicePort{{Name: "http", Number: 8080}}
	at := func(last byte, flags model.EndpointFlags, w *model.WorkloadInstance) model.Endpoint {
		return model.Endpoint{Addr: model.Addr{10: 0xff, 11: 0xff, 12: 10, 15: last}, Flags: flags, Workload: w}
	}
	pod := func(c model.ClusterID, name string) *model.WorkloadInstance { return workload(model.Pod, c, name, "") }
	entry := func(c model.ClusterID, name string) *model.WorkloadInstance {
		return workload(model.WorkloadEntry, c, name, "")
	}
	in := func(p model.Provider, c model.ClusterID, list ...*model.Slice) model.Shard {
		return model.Shard{Key: model.ShardKey{Provider: p, Cluster: c}, Slices: list}
	}
	k := model.Kubernetes
	for what, tc := range map[string]struct {
		shards []model.Shard
		served string
	}{
		"one slice": {[]model.Shard{in(k, "a", sliceOf("s", http, at(1, ready, pod("a", "p")), at(2, 0, pod("a", "q"))))}, "a/p"},
		"a pod before an entry, in an earlier shard": {[]model.Shard{
			in(k, "a", sliceOf("s", http, at(1, ready, entry("a", "a")))), in(k, "b", sliceOf("s", http, at(1, ready, pod("b", "z"))))}, "b/z"},
		"an entry takes over": {[]model.Shard{
			in(k, "a", sliceOf("s", http, at(1, ready, entry("a", "a")))), in(k, "b", sliceOf("s", http, at(1, 0, pod("b", "z"))))}, "a/a"},
		"the first cluster, not the first name": {[]model.Shard{
			in(k, "a", sliceOf("s", http, at(1, ready, pod("a", "z")))), in(k, "b", sliceOf("s", http, at(1, ready, pod("b", "a"))))}, "a/z"},
		"the first name, not the first slice": {[]model.Shard{
			in(k, "a", sliceOf("s", http, at(1, ready, pod("a", "z"))), sliceOf("t", http, at(1, ready, pod("a", "b"))))}, "a/b"},
		"a selected slice repeats an address": {[]model.Shard{
			in(k, "a", sliceOf("s", http, at(1, ready, entry("a", "e")), at(1, ready, entry("a", "f"))))}, "a/e"},
		"other networks, other ports": {[]model.Shard{
			in(k, "a", sliceOf("s", http, at(1, ready, pod("a", "p"))), sliceOf("t", []model.SlicePort{{Name: "http", Number: 9}}, at(1, ready, pod("a", "q")))),
			in(k, "b", sliceOf("s", http, at(1, ready, workload(model.Pod, "b", "r", "net")))),
		}, "a/p a/q b/r"},
		"Kubernetes before others": {[]model.Shard{
			in(k, "b", sliceOf("s", http, at(1, ready, pod("b", "p")))), in(model.External, "a", sliceOf("s", http, at(1, ready, pod("a", "p"))))}, "b/p"},
		"no such port": {[]model.Shard{in(k, "a", sliceOf("s", []model.SlicePort{{Name: "x", Number: 1}}, at(1, ready, pod("a", "p"))))}, ""},
	} {
		svc := &shards.Service{Shards: tc.shards}
		var served []string
		places := map[string]int{}
		for c := range svc.Candidates(model.Port{Name: "http", Number: 80}) {
			if c.Served() {
				w := c.Endpoint.Workload
				served = append(served, string(w.Identity.Cluster)+"/"+w.Name)
				places[fmt.Sprint(c.Endpoint.Addr, c.Port, w.Placement.Network)]++
			}
		}
		slices.Sort(served)
		if got := strings.Join(served, " "); got != tc.served || len(places) != len(served) {
			t.Errorf("%s: served %q, want %q", what, got, tc.served)
		}
		for range svc.Candidates(model.Port{Name: "http"}) {
			break
		}
	}
}

// BenchmarkCandidates reads a service of 10,000 endpoints in 100 slices.
func BenchmarkCandidates(b *testing.B) {
	svc := &shards.Service{}
	for c := range 2 {
		shard := model.Shard{Key: model.ShardKey{Provider: model.Kubernetes, Cluster: model.ClusterID(rune('a' + c))}}
		for s := range 50 {
			slice := sliceOf(fmt.Sprint(s), []model.SlicePort{{Name: "http", Number: 8080}})
			for e := range 100 {
				slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: model.Addr{12: 10, 13: byte(c), 14: byte(s), 15: byte(e)}, Flags: model.EndpointReady,
					Workload: workload(model.Pod, "a", fmt.Sprint("pod-", c, s, e), "")})
			}
			shard.Slices = append(shard.Slices, slice)
		}
		svc.Shards = append(svc.Shards, shard)
	}
	for b.Loop() {
		for range svc.Candidates(model.Port{Name: "http", Number: 80}) {
		}
	}
}
