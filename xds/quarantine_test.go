package xds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/status"

	"tributary/model"
)

// refuser is a client of clusters that refuses those with some names, or none.
type refuser struct {
	t    *testing.T
	st   discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	have map[string]bool
	no   string // name that it refuses, as host:port
}

func (r *rig) refuser(ctx context.Context, id, no string) *refuser {
	r.t.Helper()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial()).DeltaAggregatedResources(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &refuser{t: r.t, st: st, have: map[string]bool{}, no: no}
	if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: id}, TypeUrl: ClusterType}); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// until takes responses until the client has a cluster, and has refused the bad
// one alone; it returns how many it refused.
func (p *refuser) until(name string) (refused int) {
	p.t.Helper()
	for !p.have[name] || p.no != "" && refused < 2 {
		m, err := p.st.Recv()
		if err != nil {
			p.t.Fatal(err)
		}
		q := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: m.Nonce}
		for _, res := range m.Resources {
			if shortName(res.Name) == p.no {
				q.ErrorDetail = &status.Status{Code: 3, Message: "I cannot stand " + res.Name}
				refused++
			}
		}
		for _, res := range m.Resources {
			if q.ErrorDetail == nil {
				p.have[shortName(res.Name)] = true
			}
		}
		if err := p.st.Send(q); err != nil {
			p.t.Fatal(err)
		}
	}
	return refused
}

// TestQuarantine has clients come one after another, each of which waits until it
// has the cluster "good:80", and tells whether the last, which refuses nothing, is
// given "bad:80".
func TestQuarantine(t *testing.T) {
	sidecar := func(name string) string { return "sidecar~10.0.0.1~" + name + ".default~x" }
	router := func(name string) string { return "router~10.0.0.1~" + name + ".default~x" }
	type comer struct {
		id      string
		refuses bool
		goes    bool // before the next comes
	}
	for _, c := range []struct {
		name   string
		comers []comer
		last   string
		given  bool
	}{
		{"nobody refuses", nil, sidecar("z"), true},
		{"one client refuses", []comer{{sidecar("a"), true, false}}, sidecar("z"), true},
		{"one client refuses on two streams", []comer{{sidecar("a"), true, false}, {sidecar("a"), true, false}}, sidecar("z"), true},
		{"two clients refuse", []comer{{sidecar("a"), true, false}, {sidecar("b"), true, false}}, sidecar("z"), false},
		{"two clients refuse, of which one is gone", []comer{{sidecar("a"), true, true}, {sidecar("b"), true, false}}, sidecar("z"), true},
		{"two clients of another class refuse", []comer{{router("a"), true, false}, {router("b"), true, false}}, sidecar("z"), true},
		{"two clients of two classes refuse", []comer{{sidecar("a"), true, false}, {router("b"), true, false}}, sidecar("z"), true},
		{"two clients refuse what another accepted", []comer{{sidecar("a"), false, false}, {sidecar("b"), true, false}, {sidecar("c"), true, false}}, sidecar("z"), true},
		{"two clients refuse what a client of another class accepted", []comer{{router("a"), false, false}, {sidecar("b"), true, false}, {sidecar("c"), true, false}}, sidecar("z"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigOptions{limits: func(l *Limits) { l.AckTimeout = time.Minute; l.FirstRequestTimeout = patience / 20 }, before: func(w *world) {
				w.defineHTTP(key("bad"), 80)
				w.defineHTTP(key("good"), 80)
			}})
			for i, who := range c.comers {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				p := r.refuser(ctx, who.id, map[bool]string{true: "bad:80"}[who.refuses])
				want := 0
				if who.refuses {
					want = 2 // with the other, and alone
				}
				if n := p.until("good:80"); n != want {
					t.Fatalf("client %d refused %d times, want %d", i, n, want)
				}
				eventually(t, "its verdicts are in", func() bool {
					list := r.server.Proxies()
					for _, q := range list {
						if len(q.Types) != 1 || q.Types[0].Sent != q.Types[0].Acked && q.Types[0].Quarantined == 0 {
							return false
						}
					}
					return len(list) > 0
				})
				if who.goes {
					cancel()
					eventually(t, "it is gone", func() bool { return len(r.server.Proxies()) == 0 })
				}
			}
			if !c.given { // the stream's own verdict is shown before that of its class
				eventually(t, "it is condemned", func() bool {
					return slices.ContainsFunc(r.server.Quarantined(), func(q Quarantined) bool { return q.Everybody })
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			z := r.refuser(ctx, c.last, "")
			z.until("good:80")
			if z.have["bad:80"] != c.given {
				t.Errorf("given the cluster: %v, want %v", z.have["bad:80"], c.given)
			}
			everybody := 0
			for _, q := range r.server.Quarantined() {
				if q.Name != longName("bad:80") || !strings.Contains(q.Reason, "I cannot stand") {
					t.Errorf("quarantined: %+v", q)
				}
				if q.Everybody {
					everybody++
				}
			}
			class := "sidecar"
			if (everybody == 1) != (count(r.metrics.quarantine.WithLabelValues(class, "cds")) == 1 || count(r.metrics.quarantine.WithLabelValues("router", "cds")) == 1) {
				t.Errorf("%d are shown as kept from all, and the metric differs", everybody)
			}
			// Another version is given a try, and then nothing is left of the old one.
			r.change(func(w *world) {
				w.define(key("bad"), model.ClientSideLB, model.Port{Name: portName(80), Number: 80, Protocol: model.GRPC})
			})
			delete(z.have, "bad:80")
			z.until("bad:80")
			eventually(t, "the old version is forgotten", func() bool { return len(r.server.Quarantined()) == 0 })
			if n := count(r.metrics.quarantine.WithLabelValues(class, "cds")); n != 0 {
				t.Errorf("the metric shows %v", n)
			}
		})
	}
}

// The set is bounded, and the oldest goes.
func TestQuarantineIsBounded(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	q := newQuarantine(3, m)
	c := func(i int) charge { return charge{Sidecar, ClusterType, fmt.Sprint("n", i), 7} }
	for i := range 5 {
		for _, id := range []string{"a", "b"} {
			first, second := q.accuse(c(i), &Node{ID: id}, "no")
			if first != (id == "a") || second != (id == "b") {
				t.Fatalf("%d %s: first %v, second %v", i, id, first, second)
			}
		}
		q.condemn(c(i))
	}
	for i := range 5 {
		if got := q.has(c(i)); got != (i >= 2) {
			t.Errorf("%d: condemned %v", i, got)
		}
	}
	if n := count(m.quarantineFull); n != 2 {
		t.Errorf("%v evictions were counted", n)
	}
	if n := count(m.quarantine.WithLabelValues("sidecar", "cds")); n != 3 {
		t.Errorf("the metric shows %v", n)
	}
}

func TestQuotes(t *testing.T) {
	for _, c := range []struct {
		message, name string
		want          bool
	}{
		{"Error adding/updating cluster(s) outbound|80||a.b: no", "outbound|80||a.b", true},
		{"outbound|80||a.b", "outbound|80||a.b", true},
		{"(outbound|80||a.b)", "outbound|80||a.b", true},
		{"it is outbound|80||a.b.", "outbound|80||a.b", true},
		{"outbound|80||a.b.c", "outbound|80||a.b", false},
		{"outbound|80||a.bc", "outbound|80||a.b", false},
		{"outbound|80||a.b-c and outbound|80||a.b", "outbound|80||a.b", true},
		{"xoutbound|80||a.b", "outbound|80||a.b", false},
		{"line 80", "80", false},
		{"a.b:80: no", "a.b:80", true},
		{"a.b:8080: no", "a.b:80", false},
		{"a.b:80: no", "a.b", false},
		{"", "a", false},
	} {
		if got := quotes(c.message, c.name); got != c.want {
			t.Errorf("%q quotes %q: %v", c.message, c.name, got)
		}
	}
}

func TestBucket(t *testing.T) {
	// The defaults delay nobody when a thousand clients come back at once, four times.
	l := DefaultLimits()
	d := &bucket{rate: l.StreamRate, burst: l.StreamBurst}
	for i := range 4000 {
		if wait, ok := d.take(time.Unix(100, 0), longestTurn); wait > 0 || !ok {
			t.Fatalf("stream %d waits %v", i, wait)
		}
	}
	at := func(ms int) time.Time { return time.Unix(100, 0).Add(time.Duration(ms) * time.Millisecond) }
	b := &bucket{rate: 10, burst: 3}
	for i, s := range []struct {
		at   int
		wait int // milliseconds; -1: refused
	}{
		{0, 0}, {0, 0}, {0, 0}, // the burst
		{0, 100}, {0, 200}, {0, 300}, {0, -1}, // in turn, and too late
		{150, 250}, // whoever was refused took no turn
		{1000, 0}, {1000, 0}, {1000, 0}, {1000, 100},
	} {
		wait, ok := b.take(at(s.at), 300*time.Millisecond)
		if want := time.Duration(s.wait) * time.Millisecond; ok != (s.wait >= 0) || ok && wait != want {
			t.Errorf("%d: got %v %v, want %d", i, wait, ok, s.wait)
		}
	}
}
