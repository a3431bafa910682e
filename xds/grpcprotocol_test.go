package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tributary/model"
)

// What a gRPC client is told, and when: exact names only, and of clusters and
// listeners always all that it asks for.
func TestGRPCTranscripts(t *testing.T) {
	for _, s := range []struct{ name, script string }{
		{"an empty list of clusters is no wildcard", `
			set a 80
			> CDS
			< CDS
			> CDS ack
			set b 80
			> CDS ack a:80
			< CDS a:80`},
		{"an empty list of listeners is no wildcard", `
			set a 80
			> LDS
			< LDS
			> LDS ack
			set b 80`},
		{"clusters: all that are there, if one of them changed", `
			set a 80; set b 80; set c 80
			> CDS b:80 x:80 a:80
			< CDS a:80 b:80
			> CDS ack b:80 x:80 a:80
			set c 80 81
			set a 80 81
			ep a 10.0.0.1
			set x 80 udp
			set x 80
			< CDS a:80 b:80 x:80
			> CDS ack b:80 x:80 a:80
			del b
			< CDS a:80 x:80
			> CDS ack x:80 a:80
			set b 80`},
		{"listeners: all that are there, if one of them changed", `
			set a 80
			> LDS b a
			< LDS a
			> LDS ack b a
			set b 80 udp
			set c 80
			set b 90
			< LDS a b
			> LDS ack b a
			# the host alone is its first port
			set b 80 90
			< LDS a b
			> LDS ack b a
			set b 80 90 91
			del b
			< LDS a`},
		{"a name that comes later is answered at once", `
			> LDS a
			< LDS
			> RDS a:80
			< RDS
			> CDS a:80
			< CDS
			> LDS ack a
			> RDS ack a:80
			> CDS ack a:80
			set a 80; ep a 10.0.0.1
			< CDS a:80
			< LDS a
			< RDS a:80`},
		{"routes are those of a cluster", `
			set a 80; set b 80
			> RDS 80 http_proxy a:80 c:80
			< RDS a:80
			> RDS ack 80 http_proxy a:80 c:80
			set a 80 81
			set c 80
			< RDS c:80
			> RDS ack a:80 c:80 b:80
			< RDS b:80`},
		{"listeners of servers and proxies are none", `
			set a 80
			> LDS http_proxy * grpc/server
			< LDS`},
		{"a headless service is balanced over", `
			set h 80 passthrough; ep h 10.0.0.1 10.0.0.2
			> CDS h:80
			< CDS h:80
			> EDS h:80 u:80
			< EDS h:80[10.0.0.1 10.0.0.2] u:80
			> EDS ack h:80 u:80
			ep h 10.0.0.2
			< EDS h:80[10.0.0.2]
			> EDS ack h:80 u:80
			del h
			< EDS h:80`},
		{"another stream starts anew", `
			set a 80
			> CDS a:80
			< CDS a:80
			reconnect
			> CDS nonce=1 a:80
			< CDS a:80
			> CDS nonce=stale a:80 b:80
			> CDS ack a:80`},
	} {
		t.Run(s.name, func(t *testing.T) { runTranscriptOf(t, testGRPC, false, s.script, shardsTombstones) })
	}
}

// Whatever the fleet, a client finds each port that it may see by each way to name
// it, and all on the way keeps grpc-go's rules; what has no cluster is not there.
func TestGRPCFleets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(0)
		hosts := []string{"a.default.svc.cluster.local", "b.default.svc.cluster.local", "c.other.svc.cluster.local", "ext.example.com"}
		numbers := []uint16{53, 80, 90}
		for _, host := range hosts {
			for _, namespace := range []string{"default", "other"} {
				if !rapid.Bool().Draw(t, "there") {
					continue
				}
				k := model.ServiceKey{Host: host, Namespace: namespace}
				var ports []model.Port
				for _, n := range numbers {
					if rapid.Bool().Draw(t, "port") {
						ports = append(ports, model.Port{Name: portName(n), Number: n,
							Protocol: rapid.SampledFrom([]model.Protocol{model.HTTP, model.GRPC, model.TCP, model.UDP, model.SCTP, model.Unknown}).Draw(t, "protocol")})
					}
				}
				w.define(k, rapid.SampledFrom([]model.Resolution{model.ClientSideLB, model.Passthrough}).Draw(t, "resolution"), ports...)
				if rapid.Bool().Draw(t, "private") {
					w.services[k].definition.Winner.Visibility = model.VisibleIn(namespace)
				}
				w.place(k, rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "2001:db8::1"}), 0, 4).Draw(t, "addresses")...)
			}
		}
		w.commit()
		v := newView(t, w.store.Load()) // fails the test if a resource breaks a rule
		*v.node = newNode(testGRPC)
		slow := w.slowClusters(GRPC)
		for _, host := range hosts {
			for _, n := range numbers {
				cluster := clusterName(n, "", host)
				_, want := slow[cluster]
				dialled := []string{fmt.Sprintf("%s:%d", host, n)}
				if short, is := strings.CutSuffix(host, ".svc.cluster.local"); is {
					dialled = append(dialled, fmt.Sprintf("%s:%d", short, n), fmt.Sprintf("%s.svc:%d", short, n))
				}
				if short, is := strings.CutSuffix(host, ".default.svc.cluster.local"); is {
					dialled = append(dialled, fmt.Sprintf("%s:%d", short, n))
				}
				asked := map[string][]string{ClusterType: {cluster}, RouteType: {cluster}, ListenerType: dialled, EndpointType: {cluster}}
				for _, url := range slices.Sorted(maps.Keys(asked)) {
					for _, name := range asked[url] {
						r := v.get(url, name)
						if there := r != nil && !r.nobody; there != want {
							t.Fatalf("%s %s is there: %v, want %v", ShortType(url), name, there, want)
						}
						if r == nil {
							continue
						}
						if err := grpcRules(url, name, r.Body()); err != nil {
							t.Fatalf("%s %s: %v", ShortType(url), name, err)
						}
					}
				}
			}
		}
	})
}

// What a gRPC client would refuse is left out and reported, once; Envoys are
// given it.
func TestGRPCRefusableIsLeftOut(t *testing.T) {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	w.commit()
	v := newView(t, w.store.Load())
	var reported []string
	v.failed = func(url, name string, err error) {
		reported = append(reported, fmt.Sprint(ShortType(url), " ", name, ": ", err))
	}
	name := longName("a:80")
	forEnvoy := func() (*Resource, error) {
		return renderCluster(name, w.services[key("a")].definition, model.Port{Number: 80, Protocol: model.HTTP}, direct, false)
	}
	if v.check(ClusterType, name, forEnvoy) == nil || len(reported) > 0 {
		t.Errorf("Envoy is not given it: %q", reported)
	}
	*v.node = newNode(testGRPC)
	if r := v.check(ClusterType, name, forEnvoy); r != nil {
		t.Errorf("gRPC is given %s", r.Name)
	}
	if len(reported) != 1 || !strings.Contains(reported[0], "CDS "+name+": for gRPC: a cluster of type ORIGINAL_DST") {
		t.Errorf("reported: %q", reported)
	}
}
