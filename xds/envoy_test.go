package xds

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary/model"
	"tributary/test/envoy"
)

// freePort returns a port of the loopback that nothing listens on.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A real Envoy takes all that it is given, at once, and has what the registry
// says after each change.
func TestEnvoy(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) { testEnvoy(t, delta, Sidecar, nil) })
}

// The same for a gateway, and for a proxy of a mesh, which has certificates.
func TestEnvoyRouter(t *testing.T) { testEnvoy(t, true, Router, nil) }

func TestEnvoyOfAMesh(t *testing.T) {
	testEnvoy(t, true, Sidecar, map[string]any{"ISTIO_VERSION": "1.30.0", "CLUSTER_ID": "c1"})
}

func testEnvoy(t *testing.T, delta bool, class Class, metadata map[string]any) {
	// What waits for Envoy's fetch timeout takes 15 s; nothing here may.
	const quick = 10 * time.Second
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["HTTP_PROXY_PORT"] = freePort(t)
	wide := key("wide.default.svc.cluster.local")
	r := newRig(t, rigOptions{before: func(w *world) {
		for i := range 50 {
			k := key(fmt.Sprintf("s%d.default.svc.cluster.local", i))
			w.defineHTTP(k, 80, 81)
			w.place(k, fmt.Sprintf("10.0.%d.1", i), fmt.Sprintf("2001:db8::%x", i+1))
		}
		w.define(wide, model.ClientSideLB,
			model.Port{Name: "tcp", Number: 5432, Protocol: model.TCP}, model.Port{Name: "grpc", Number: 90, Protocol: model.GRPC},
			model.Port{Name: "any", Number: 91}, model.Port{Name: "dns", Number: 53, Protocol: model.UDP}, model.Port{Name: "dns-tcp", Number: 53, Protocol: model.TCP})
		w.place(wide, "10.3.0.1")
		slice := w.services[wide].shards[0].Slices[0]
		slice.Localities = []model.Locality{"r1/z1", ""}
		slice.Endpoints[0].Weight = 7
		slice.Endpoints[0].Workload = &model.WorkloadInstance{Name: "pod-1", Identity: &model.Identity{Cluster: "c1", Namespace: "default"},
			Labels: model.NewLabels(map[string]string{tlsModeLabel: "istio"})}
		w.services[wide].definition.Accounts = []string{"default/sa"}
		w.define(key("headless.default.svc.cluster.local"), model.Passthrough, model.Port{Name: "http", Number: 80, Protocol: model.HTTP})
		w.place(key("headless.default.svc.cluster.local"), "10.3.1.1")
		for i, host := range nastyHosts[:10] { // wildcards, ports and colliding short names
			k := model.ServiceKey{Host: host, Namespace: []string{"default", "other"}[i%2]}
			w.defineHTTP(k, 80)
			w.place(k, fmt.Sprintf("10.4.0.%d", i+1))
		}
	}})
	begin := time.Now()
	e := envoy.Start(t, envoy.ADS{
		Server: r.address, SotW: !delta, Router: class == Router, Name: "app-1", Metadata: metadata, Secrets: envoy.Secrets(t),
	}.Bootstrap())

	// settled waits until Envoy's clusters are those of the registry, its listener
	// is there, and it has refused nothing.
	settled := func(what string) {
		t.Helper()
		since := time.Now()
		e.WaitFor(t, quick, what, func(ctx context.Context) error {
			clusters, err := e.Clusters(ctx)
			if err != nil {
				return err
			}
			r.mu.Lock()
			want := map[string][]string{}
			for name, c := range r.world.slowClusters(class) {
				want[name] = []string{}
				for _, g := range c.assignment(name).Endpoints {
					for _, x := range g.LbEndpoints {
						a := x.GetEndpoint().Address.GetSocketAddress()
						want[name] = append(want[name], net.JoinHostPort(a.Address, fmt.Sprint(a.GetPortValue())))
					}
				}
				slices.Sort(want[name])
			}
			r.mu.Unlock()
			for name, hosts := range clusters {
				if !strings.HasPrefix(name, "outbound|") {
					delete(clusters, name)
					continue
				}
				got := []string{}
				for _, h := range hosts {
					got = append(got, h.Address)
				}
				if !slices.Equal(got, want[name]) {
					return fmt.Errorf("cluster %s has %v, want %v", name, got, want[name])
				}
			}
			if got, all := slices.Sorted(maps.Keys(clusters)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, all) {
				return fmt.Errorf("%d clusters %q, want %d %q", len(got), got, len(all), all)
			}
			listeners, err := e.Listeners(ctx)
			if err == nil && listeners[proxyName] == "" {
				err = fmt.Errorf("it does not listen")
			}
			return err
		})
		t.Logf("%s: after %v", what, time.Since(since))
		stats, err := e.Stats(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range stats {
			if (strings.HasSuffix(name, ".update_rejected") || strings.HasSuffix(name, ".update_failure") || strings.HasSuffix(name, ".init_fetch_timeout")) && n > 0 {
				t.Errorf("%s: %s is %d\n%s", what, name, n, r.log)
			}
		}
		if n := stats["cluster_manager.warming_clusters"]; n != 0 {
			t.Errorf("%s: %d clusters are warming", what, n)
		}
	}
	settled("the start")
	if took := time.Since(begin); took > quick {
		t.Errorf("it took %v", took)
	}
	clusters, err := e.Clusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := envoy.Host{Address: "10.3.0.1:8090", Health: "HEALTHY", Weight: 7, Region: "r1", Zone: "z1"}
	if got := clusters[clusterName(90, "", wide.Host)]; len(got) != 1 || got[0] != want {
		t.Errorf("hosts %+v, want %+v", got, want)
	}

	s0 := key("s0.default.svc.cluster.local")
	r.change(func(w *world) { w.place(s0, "10.9.0.1", "10.9.0.2", "10.9.0.3") })
	settled("endpoints that change")
	sent := count(r.metrics.pushes.WithLabelValues("cds"))
	r.change(func(w *world) {
		w.define(s0, model.ClientSideLB, model.Port{Name: portName(80), Number: 80, Protocol: model.GRPC}, model.Port{Name: portName(81), Number: 81, Protocol: model.HTTP})
	})
	eventually(t, "the definition is sent", func() bool { return count(r.metrics.pushes.WithLabelValues("cds")) > sent })
	eventually(t, "and taken", func() bool {
		types := r.server.Proxies()[0].Types
		return !slices.ContainsFunc(types, func(x ProxyType) bool { return !x.Synced() })
	})
	settled("a definition that changes, with its endpoints as they are")
	r.change(func(w *world) {
		k := key("new.default.svc.cluster.local")
		w.defineHTTP(k, 80)
		w.place(k, "10.9.1.1")
		w.place(key("s1.default.svc.cluster.local"))
		w.remove(key("s2.default.svc.cluster.local"))
		w.defineHTTP(key("s3.default.svc.cluster.local"), 81)
	})
	settled("a service that comes, one that drains, one that goes and a port that goes")
	r.change(func(w *world) {
		w.defineHTTP(key("s2.default.svc.cluster.local"), 80)
		w.place(key("s2.default.svc.cluster.local"), "10.9.2.2")
		w.place(key("s1.default.svc.cluster.local"), "10.9.2.1")
	})
	settled("what was gone and comes again")
	for i := range 30 {
		r.change(func(w *world) {
			w.place(s0, fmt.Sprintf("10.9.3.%d", i+1))
			w.define(wide, model.ClientSideLB, model.Port{Name: "tcp", Number: 5432, Protocol: []model.Protocol{model.TCP, model.HTTP, model.GRPC}[i%3]})
		})
	}
	settled("a burst of changes")
	eventually(t, "Envoy acknowledges all", func() bool {
		list := r.server.Proxies()
		return len(list) == 1 && !slices.ContainsFunc(list[0].Types, func(x ProxyType) bool { return !x.Synced() })
	})
	if got := r.log.String(); got != "" {
		t.Errorf("logged:\n%s", got)
	}
}
