package shards_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tributary/model"
	"tributary/shards"
)

func define(key model.ServiceKey, change func(*model.Service)) model.ServiceDelta {
	s := &model.Service{Key: key}
	change(s)
	return model.ServiceDelta{Key: key, Push: model.ServicePush, Definition: &model.Definition{Key: key, Winner: s, Sources: []*model.Service{s}}}
}

// TestShownSince: for every reader of an older revision a service tells whether
// the reader's namespace was shown it in between, or is. Of one that changes its
// visibility all the time it may say so in vain, and never the other way.
func TestShownSince(t *testing.T) {
	namespaces := []string{"a", "b", "c", ""}
	few := []model.Visibility{model.Everywhere, model.Nowhere, model.VisibleIn("a"), model.VisibleIn("b", "a"), model.VisibleIn("c", "b")}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		values := few
		if seed%2 == 1 {
			values = nil
			for i := range 12 {
				values = append(values, model.VisibleIn("a", fmt.Sprint("n", i)))
			}
		}
		store, key := shards.NewStore(10), model.ServiceKey{Host: "h", Namespace: "n"}
		var shown []func(string) bool // by revision
		var svc *shards.Service
		none := func(string) bool { return false }
		shown = append(shown, none)
		for range 40 {
			d := model.ServiceDelta{Key: key, Push: model.ServicePush}
			to := none
			switch rnd.IntN(4) {
			case 0:
			default:
				v := values[rnd.IntN(len(values))]
				d = define(key, func(s *model.Service) { s.Visibility = v })
				to = v.To
			}
			if d.Definition == nil && (svc == nil || svc.Definition == nil) {
				continue
			}
			snap := store.Apply(model.Delta{Services: []model.ServiceDelta{d}})
			shown = append(shown, to)
			svc = nil
			for s := range snap.Since(snap.Revision - 1) {
				svc = s
			}
			for since := range shown {
				for _, ns := range namespaces {
					want := slices.ContainsFunc(shown[since:], func(to func(string) bool) bool { return to(ns) })
					if got := svc.ShownSince(uint64(since), ns); got != want && (want || seed%2 == 0) {
						t.Fatalf("seed %d: shown to %q since %d of %d: %v, want %v; %+v", seed, ns, since, snap.Revision, got, want, svc.Withdrawn)
					}
				}
				if all := svc.ShownToAllSince(uint64(since)); all && !svc.ShownSince(uint64(since), "nobody") {
					t.Fatal("shown to all, and not to everybody")
				}
			}
		}
	}
}

func TestAliases(t *testing.T) {
	store := shards.NewStore(10)
	say := func(text string) *shards.Snapshot {
		var d model.Delta
		for _, f := range strings.Fields(text) {
			host, of, _ := strings.Cut(f, "=")
			key := model.ServiceKey{Host: strings.TrimPrefix(host, "-"), Namespace: "n"}
			if strings.HasPrefix(host, "-") {
				d.Services = append(d.Services, model.ServiceDelta{Key: key, Push: model.ServicePush})
				continue
			}
			d.Services = append(d.Services, define(key, func(s *model.Service) { s.AliasOf = of }))
		}
		return store.Apply(d)
	}
	check := func(snap *shards.Snapshot, host, want string) {
		t.Helper()
		var got []string
		for _, s := range snap.Aliases(host) {
			got = append(got, s.Key.Host)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("aliases of %s are %v, want %q", host, got, want)
		}
	}
	first := say("web door=web gate=door blue")
	check(first, "web", "door gate")
	check(first, "door", "gate")
	check(first, "blue", "")
	second := say("door=blue")
	check(second, "web", "")
	check(second, "blue", "door gate")
	check(first, "web", "door gate") // a snapshot never changes
	circle := say("door=gate self=self")
	check(circle, "gate", "door")
	check(circle, "door", "gate")
	check(circle, "self", "")
	check(circle, "blue", "")
	last := say("-gate door")
	check(last, "gate", "")
	check(last, "door", "")
}

// TestDualStack: a pod with several addresses is one endpoint.
func TestDualStack(t *testing.T) {
	four, six := model.Addr{10: 0xff, 11: 0xff, 12: 10, 15: 1}, model.Addr{0: 0xfd, 15: 1}
	http := []model.SlicePort{{Name: "http", Number: 8080}}
	for _, c := range []struct {
		what            string
		first, more     model.Addr
		dual            bool
		readyFour, both bool
		want            string
	}{
		{"both families", four, six, true, true, true, "10.0.0.1[fd00::1]"},
		{"IPv6 is the pod's first", six, four, true, true, true, "10.0.0.1[fd00::1]"},
		{"IPv6 alone", six, four, true, false, true, "fd00::1[]"},
		{"a service of one family", four, six, false, true, false, "10.0.0.1[]"},
		{"no slice of the other family yet", four, six, true, true, false, "10.0.0.1[fd00::1]"},
	} {
		w := workload(model.Pod, "a", "p", "")
		w.Addr, w.Details = c.first, &model.WorkloadDetails{More: []model.Addr{c.more}}
		flags := model.EndpointFlags(0)
		if c.readyFour {
			flags = model.EndpointReady
		}
		list := []*model.Slice{sliceOf("z4", http, model.Endpoint{Addr: four, Flags: flags, Workload: w})}
		if c.both {
			list = append([]*model.Slice{sliceOf("a6", http, model.Endpoint{Addr: six, Flags: model.EndpointReady, Workload: w})}, list...)
		}
		key := model.ShardKey{Provider: model.Kubernetes, Cluster: "a"}
		d := define(model.ServiceKey{Host: "h"}, func(s *model.Service) { s.Registry, s.DualStack = key, c.dual })
		svc := &shards.Service{Definition: d.Definition, Shards: []model.Shard{{Key: key, Slices: list}}}
		var got []string
		for c := range svc.Candidates(model.Port{Name: "http", Number: 80}) {
			if c.Served() {
				got = append(got, c.Endpoint.Addr.String()+fmt.Sprint(c.Additional()))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.what, got, c.want)
		}
	}
}
