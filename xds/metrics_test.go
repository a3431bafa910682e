package xds

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// series returns what is shown at /metrics: the value, or how often it was
// observed, by name and labels.
func (r *rig) series() map[string]float64 {
	families, err := r.metrics.registry.(*prometheus.Registry).Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				all[name] = float64(m.GetHistogram().GetSampleCount())
			default:
				all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func TestMetricsTellWhatHappens(t *testing.T) {
	r := newRig(t, rigOptions{before: func(w *world) {
		w.defineHTTP(key("a"), 80)
		w.defineHTTP(key("bad"), 80)
	}})
	good := r.connect(true, longName("a:80"))
	good.waitCluster("a:80")
	eventually(t, "all is acknowledged", func() bool {
		p := r.server.Proxies()
		return len(p) == 1 && len(p[0].Types) == 4 && p[0].Types[0].Synced() && p[0].Types[1].Synced()
	})
	if got := r.series(); got["tributary_event_to_ack_seconds"] != 0 || got["pilot_proxy_convergence_time"] != 0 {
		t.Errorf("a client that comes is no push: %v", got)
	}
	r.change(func(w *world) { w.place(key("a"), "10.0.0.1") })
	good.waitEndpoints("a:80", "10.0.0.1")
	eventually(t, "the lag", func() bool { return r.series()["tributary_event_to_ack_seconds"] == 1 })

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bad := r.refuser(ctx, "sidecar~10.0.0.1~b.default~x", "bad:80")
	if n := bad.until("a:80"); n != 2 {
		t.Errorf("refused %d times", n)
	}
	eventually(t, "the refusal", func() bool { return r.series()["pilot_xds_cds_reject"] == 1 })
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial()).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	version, err := structpb.NewStruct(map[string]any{"ISTIO_VERSION": "1.30.0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "v", Metadata: version}, TypeUrl: ListenerType}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the send is counted", func() bool { return r.series()["pilot_xds_pushes type=lds"] == 2 })
	got := r.series()
	for name, want := range map[string]float64{
		"pilot_xds version=unknown": 2, "pilot_xds version=1.30.0": 1, "tributary_xds_streams": 3, "tributary_xds_connections": 3,
		"pilot_total_xds_rejects type=cds": 2, "pilot_xds_cds_reject": 1, "pilot_xds_eds_reject": 0, "pilot_proxy_convergence_time": 1,
		"pilot_xds_write_timeout": 0, "pilot_xds_expired_nonce type=cds": 0, "pilot_total_xds_internal_errors": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v (%v), want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{"pilot_xds_send_time", "pilot_xds_config_size_bytes type=eds", "pilot_xds_push_time type=eds", "pilot_xds_recv_max"} {
		if got[name] == 0 {
			t.Errorf("%s is not observed", name)
		}
	}
	cancel()
	eventually(t, "who is gone refuses nothing", func() bool {
		s := r.series()
		return s["pilot_xds_cds_reject"] == 0 && s["tributary_xds_connections"] >= 1
	})
}

// The versions that clients claim do not become labels without end.
func TestVersionLabels(t *testing.T) {
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprint("1.", i))
	}
	list = append(list, "a\nb", strings.Repeat("9", 1000), "", `"}`)
	registry := prometheus.NewRegistry()
	NewMetrics(registry).byVersion(func() []string { return list })
	r := &rig{t: t, metrics: &Metrics{registry: registry}}
	n, sum := 0, 0.0
	for range 2 {
		n, sum = 0, 0
		for name, v := range r.series() {
			if strings.HasPrefix(name, "pilot_xds version=") {
				n, sum = n+1, sum+v
			}
		}
	}
	if n > maxVersions+1 || sum != float64(len(list)) {
		t.Errorf("%d series for %d clients, %v of them counted", n, len(list), sum)
	}
}

// A response that is too large comes in parts; where that cannot be, the client is
// told.
func TestResponseSize(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{limits: func(l *Limits) { l.ResponseBytes = 2000 }, before: func(w *world) {
			for i := range 20 {
				w.defineHTTP(key(fmt.Sprint("s", i)), 80)
			}
		}})
		if delta {
			good := r.connect(delta, longName("s3:80"))
			for i := range 20 {
				good.waitCluster(fmt.Sprintf("s%d:80", i))
			}
			if n := count(r.metrics.cut); n < 2 {
				t.Errorf("%v responses were parted", n)
			}
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial()).StreamAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Send(&discoveryv3.DiscoveryRequest{Node: testNode, TypeUrl: ClusterType}); err != nil {
			t.Fatal(err)
		}
		_, err = st.Recv()
		if grpcstatus.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "setting xds.maxResponseBytes") || count(r.metrics.tooLarge) != 1 {
			t.Errorf("got %v", err)
		}
	})
}

// Connections beyond the bound are closed, and room is made by those that go.
func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, rigOptions{limits: func(l *Limits) { l.Streams = 2 }})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	list := []net.Conn{dial(), dial(), dial(), dial()}
	eventually(t, "four are open", func() bool { return count(r.metrics.connections) == 4 })
	dial()
	eventually(t, "the fifth is closed", func() bool { return count(r.metrics.connectionsRefused) == 1 })
	list[0].Close()
	eventually(t, "three are left", func() bool { return count(r.metrics.connections) == 3 })
	dial()
	eventually(t, "another one is open", func() bool { return count(r.metrics.connections) == 4 })
}
