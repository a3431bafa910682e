package xds

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"

	"tributary/model"
	"tributary/push"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; nothing takes that long unless it hangs.
const patience = 20 * time.Second

// rig is a real server with a real pusher and a registry that the test changes.
type rig struct {
	t       *testing.T
	world   *world
	pusher  *push.Pusher
	server  *Server
	metrics *Metrics
	address string
	log     *logs

	mu       sync.Mutex // of the world
	revision uint64
}

// logs collects what is logged at level Warn and above.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type rigOptions struct {
	limits func(*Limits)
	settle time.Duration
	closed bool // answers are held until Open
	debug  Debug
	before func(*world)
}

func newRig(t *testing.T, o rigOptions) *rig {
	limits := DefaultLimits()
	if o.limits != nil {
		o.limits(&limits)
	}
	r := &rig{t: t, world: newWorld(1000), pusher: push.NewPusher(o.settle, max(o.settle, push.DefaultMax), nil), log: &logs{}}
	r.metrics = NewMetrics(prometheus.NewRegistry())
	r.server = NewServer(Options{
		Source: r.pusher, Limits: limits, Identity: "test", Debug: o.debug, Metrics: r.metrics,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.pusher.Run(ctx) })
	wg.Go(func() {
		if err := r.server.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	if o.before != nil {
		o.before(r.world)
		r.offer()
	}
	if !o.closed {
		r.server.Open()
	}
	return r
}

// change changes the registry as one snapshot.
func (r *rig) change(f func(*world)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.world)
	r.offer()
}

func (r *rig) offer() {
	s := r.world.commit()
	r.revision = s.Revision
	r.pusher.Offer(s, 1, time.Now())
}

func (r *rig) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

func count(c prometheus.Metric) float64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return -1
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// eventually waits until cond is true, for what nothing announces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// friend is a client that does all that it should. It is what every server must
// keep serving, whatever others do.
type friend struct {
	t    *testing.T
	send func(url string, names []string, nonce string) error

	mu        sync.Mutex
	changed   chan struct{}
	have      map[string]map[string][]byte // by type and name
	responses map[string]int               // by type
	err       error
}

// connect runs a friend of either variant that wants all clusters and the given
// endpoint names.
func (r *rig) connect(delta bool, names ...string) *friend {
	r.t.Helper()
	p := &friend{t: r.t, changed: make(chan struct{}), have: map[string]map[string][]byte{}, responses: map[string]int{}}
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	r.t.Cleanup(func() { cancel(); wg.Wait() })
	var receive func() error
	if delta {
		st, err := client.DeltaAggregatedResources(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		p.send = func(url string, names []string, nonce string) error {
			q := &discoveryv3.DeltaDiscoveryRequest{Node: testNode, TypeUrl: url, ResponseNonce: nonce}
			if nonce == "" {
				q.ResourceNamesSubscribe = names
			}
			return st.Send(q)
		}
		receive = func() error {
			m, err := st.Recv()
			if err != nil {
				return err
			}
			p.note(m.TypeUrl, func(have map[string][]byte) {
				for _, res := range m.Resources {
					have[res.Name] = res.Resource.Value
				}
				for _, n := range m.RemovedResources {
					delete(have, n)
				}
			})
			return p.send(m.TypeUrl, nil, m.Nonce)
		}
	} else {
		st, err := client.StreamAggregatedResources(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		subscribed := map[string][]string{}
		p.send = func(url string, names []string, nonce string) error {
			if nonce == "" {
				subscribed[url] = names
			}
			return st.Send(&discoveryv3.DiscoveryRequest{Node: testNode, TypeUrl: url, ResponseNonce: nonce, ResourceNames: subscribed[url]})
		}
		receive = func() error {
			m, err := st.Recv()
			if err != nil {
				return err
			}
			p.note(m.TypeUrl, func(have map[string][]byte) {
				if wholeState(m.TypeUrl) {
					clear(have)
				}
				for _, res := range m.Resources {
					name := proxyName
					switch m.TypeUrl {
					case ClusterType:
						name = unmarshalCluster(p.t, res.Value).Name
					case EndpointType:
						name = unmarshalAssignment(p.t, res.Value).ClusterName
					}
					have[name] = res.Value
				}
			})
			return p.send(m.TypeUrl, nil, m.Nonce)
		}
	}
	for _, s := range []struct {
		url   string
		names []string
	}{{ClusterType, nil}, {EndpointType, names}, {ListenerType, nil}, {RouteType, []string{proxyName}}} {
		if err := p.send(s.url, s.names, ""); err != nil {
			r.t.Fatal(err)
		}
	}
	wg.Go(func() {
		for {
			if err := receive(); err != nil {
				p.mu.Lock()
				p.err = err
				close(p.changed)
				p.changed = nil
				p.mu.Unlock()
				return
			}
		}
	})
	return p
}

func (p *friend) note(url string, f func(map[string][]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have[url] == nil {
		p.have[url] = map[string][]byte{}
	}
	f(p.have[url])
	p.responses[url]++
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait waits until cond is true of what the friend has; p.mu is held for cond.
func (p *friend) wait(what string, cond func() bool) {
	p.t.Helper()
	for end := time.After(patience); ; {
		p.mu.Lock()
		ok, changed, err := cond(), p.changed, p.err
		p.mu.Unlock()
		switch {
		case ok:
			return
		case err != nil:
			p.t.Fatalf("%s: the stream ended: %v", what, err)
		}
		select {
		case <-changed:
		case <-end:
			p.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (p *friend) waitCluster(name string) {
	p.t.Helper()
	p.wait("cluster "+name, func() bool { return p.have[ClusterType][longName(name)] != nil })
}

func (p *friend) waitEndpoints(name string, want ...string) {
	p.t.Helper()
	p.wait(fmt.Sprint("endpoints ", want, " of ", name), func() bool {
		body := p.have[EndpointType][longName(name)]
		return body != nil && slices.Equal(addresses(p.t, body), want)
	})
}

func variants(t *testing.T, f func(t *testing.T, delta bool)) {
	t.Run("delta", func(t *testing.T) { f(t, true) })
	t.Run("sotw", func(t *testing.T) { f(t, false) })
}

func TestServerEndToEnd(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{before: func(w *world) {
			w.defineHTTP(key("a"), 80)
			w.place(key("a"), "10.0.0.1")
		}})
		peers := []*friend{}
		for range 3 {
			peers = append(peers, r.connect(delta, longName("a:80"), longName("b:80")))
		}
		for _, p := range peers {
			p.waitCluster("a:80")
			p.waitEndpoints("a:80", "10.0.0.1")
			p.waitEndpoints("b:80")
			p.wait("listener and routes", func() bool {
				return p.have[ListenerType][proxyName] != nil && p.have[RouteType][proxyName] != nil
			})
		}
		r.change(func(w *world) {
			w.place(key("a"), "10.0.0.1", "10.0.0.2")
			w.defineHTTP(key("b"), 80)
			w.place(key("b"), "10.1.0.1")
		})
		for _, p := range peers {
			p.waitCluster("b:80")
			p.waitEndpoints("a:80", "10.0.0.1", "10.0.0.2")
			p.waitEndpoints("b:80", "10.1.0.1")
		}
		r.change(func(w *world) { w.remove(key("a")) })
		for _, p := range peers {
			p.wait("the removal", func() bool { return p.have[ClusterType][longName("a:80")] == nil })
			p.waitEndpoints("a:80")
		}
		eventually(t, "all is acknowledged", func() bool {
			list := r.server.Proxies()
			return len(list) == 3 && !slices.ContainsFunc(list, func(p Proxy) bool {
				return p.ID != testNode.Id || p.Delta != delta || len(p.Types) != 4 || p.Namespace != "default" ||
					slices.ContainsFunc(p.Types, func(x ProxyType) bool { return !x.Synced() || x.Sent == "" })
			})
		})
		if got := r.log.String(); got != "" {
			t.Errorf("logged for well-behaved clients:\n%s", got)
		}
	})
}

func TestAnswersAreHeldUntilOpen(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{closed: true})
		p := r.connect(delta, longName("a:80"))
		eventually(t, "the request is in", func() bool {
			list := r.server.Proxies()
			return len(list) == 1 && len(list[0].Types) == 4
		})
		// Nothing is released yet, and then something is: neither may be shown.
		r.server.metrics.streams.Set(1)
		r.change(func(w *world) { w.defineHTTP(key("a"), 80) })
		eventually(t, "the release", func() bool { return r.pusher.Released() != nil })
		r.change(func(w *world) { w.place(key("a"), "10.0.0.1") })
		eventually(t, "the release", func() bool { return r.pusher.Released().Revision == 2 })
		if n := count(r.metrics.pushes.WithLabelValues("cds")); n != 0 {
			t.Fatalf("%v answers before Open", n)
		}
		r.server.Open()
		p.waitCluster("a:80")
		p.waitEndpoints("a:80", "10.0.0.1")
	})
}

func TestOpenBeforeTheFirstRelease(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{})
		p := r.connect(delta, longName("a:80"))
		eventually(t, "the request is in", func() bool { return len(r.server.Proxies()) == 1 })
		r.change(func(w *world) { w.defineHTTP(key("a"), 80) })
		p.waitCluster("a:80")
	})
}

// What several sources change within one hold reaches a stream as one response
// of each type.
func TestOneAggregatedPush(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		const settle = 300 * time.Millisecond
		r := newRig(t, rigOptions{settle: settle, before: func(w *world) {
			for _, host := range []string{"a", "b", "c"} {
				w.defineHTTP(key(host), 80)
				w.place(key(host), "10.0.0.1")
			}
		}})
		names := []string{longName("a:80"), longName("b:80"), longName("c:80"), longName("d:80")}
		peers := []*friend{r.connect(delta, names...), r.connect(delta, names...)}
		for _, p := range peers {
			p.waitEndpoints("c:80", "10.0.0.1")
			p.waitEndpoints("d:80")
			p.wait("routes", func() bool { return p.have[RouteType] != nil && p.have[ListenerType] != nil })
		}
		shard := func(cluster model.ClusterID, addr string) model.Shard {
			a, _ := model.ParseAddr(addr)
			return model.Shard{Key: model.ShardKey{Provider: model.Kubernetes, Cluster: cluster}, Slices: []*model.Slice{{
				Cluster: cluster, Object: model.NamespacedName{Namespace: "default", Name: "s"},
				Ports:     []model.SlicePort{{Name: portName(80), Number: 8080}},
				Endpoints: []model.Endpoint{{Addr: a, Flags: model.EndpointReady}},
			}}}
		}
		for round := range 3 {
			before := make([]map[string]int, len(peers))
			for i, p := range peers {
				p.mu.Lock()
				before[i] = maps.Clone(p.responses)
				p.mu.Unlock()
			}
			last := func(n int) string { return fmt.Sprintf("10.%d.%d.1", n, round) }
			// Endpoints of one service from three clusters, one after another.
			for n := 1; n <= 3; n++ {
				r.change(func(w *world) {
					var list []model.Shard
					for i := 1; i <= n; i++ {
						list = append(list, shard(model.ClusterID(fmt.Sprintf("c%d", i)), last(i)))
					}
					w.setShards(key("a"), list...)
				})
			}
			r.change(func(w *world) { w.setShards(key("b"), shard("c2", last(2))) })
			// Definitions, of one that is there and of one that was not.
			r.change(func(w *world) {
				protocol := []model.Protocol{model.GRPC, model.HTTP}[round%2]
				w.define(key("c"), model.ClientSideLB, model.Port{Name: portName(80), Number: 80, Protocol: protocol})
			})
			r.change(func(w *world) {
				w.defineHTTP(key("d"), []uint16{80, 90, 91, 92}[:2+round]...)
				w.place(key("d"), last(4))
			})
			for i, p := range peers {
				p.waitEndpoints("a:80", last(1), last(2), last(3))
				p.waitEndpoints("b:80", last(2))
				p.waitEndpoints("d:80", last(4))
				p.wait("routes", func() bool { return p.responses[RouteType] > before[i][RouteType] })
				p.mu.Lock()
				for url, want := range map[string]int{ClusterType: 1, EndpointType: 1, ListenerType: 0, RouteType: 1} {
					if got := p.responses[url] - before[i][url]; got != want {
						t.Errorf("round %d: %d responses of type %s for six changes within a hold, want %d", round, got, ShortType(url), want)
					}
				}
				p.mu.Unlock()
			}
		}
	})
}

func TestStreamsShareBytes(t *testing.T) {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	var list []string
	for i := range 200 {
		list = append(list, fmt.Sprintf("10.0.0.%d", i+1))
	}
	w.place(key("a"), list...)
	w.commit()
	res := newView(t, w.store.Load()).get(EndpointType, longName("a:80"))
	for _, delta := range []bool{true, false} {
		f := encodeFrame(&response{url: EndpointType, nonce: "1", resources: []*Resource{res}}, delta, "me")
		bufs, err := codec{}.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		shared := res.delta
		if !delta {
			shared = res.any
		}
		if last := bufs[len(bufs)-1].ReadOnlyData(); &last[0] != &shared[0] {
			t.Error("the bytes of the resource were copied")
		}
	}
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f := encodeFrame(&response{url: EndpointType, nonce: "1", resources: []*Resource{res}}, true, "me")
			if _, err := (codec{}).Marshal(f); err != nil {
				b.Fatal(err)
			}
		}
	})
	if n := got.AllocedBytesPerOp(); n > 1024 {
		t.Errorf("a response around %d bytes allocates %d", len(res.delta), n)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(b mem.BufferSlice, v any) error { *v.(*[]byte) = b.Materialize(); return nil }

// Each hostile client gets an error that a person can act on, is counted, and
// harms nobody beside it.
func TestHostileClients(t *testing.T) {
	type hostile struct {
		name    string
		limits  func(*Limits)
		attack  func(t *testing.T, r *rig, ctx context.Context) error // returns the error that the client got
		code    codes.Code
		says    string
		logged  string // in the server's log
		counter func(m *Metrics) prometheus.Metric
	}
	deltaStream := func(t *testing.T, r *rig, ctx context.Context) discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
		st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial()).DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	until := func(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient) error {
		for {
			if _, err := st.Recv(); err != nil {
				return err
			}
		}
	}
	raw := func(t *testing.T, r *rig, ctx context.Context, method string, message []byte) error {
		st, err := r.dial().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/envoy.service.discovery.v3.AggregatedDiscoveryService/"+method,
			grpc.ForceCodecV2(rawCodec{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := st.SendMsg(message); err != nil {
			t.Fatal(err)
		}
		var b []byte
		for {
			if err := st.RecvMsg(&b); err != nil {
				return err
			}
		}
	}
	first := func(url string, names ...string) *discoveryv3.DeltaDiscoveryRequest {
		return &discoveryv3.DeltaDiscoveryRequest{Node: testNode, TypeUrl: url, ResourceNamesSubscribe: names}
	}
	for _, h := range []hostile{
		{
			name: "garbage, delta",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				return raw(t, r, ctx, "DeltaAggregatedResources", []byte("\xff\xfe\xfd garbage"))
			},
			code: codes.InvalidArgument, says: "cannot be decoded", counter: func(m *Metrics) prometheus.Metric { return m.garbage },
		},
		{
			name: "garbage, state of the world",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				return raw(t, r, ctx, "StreamAggregatedResources", []byte{0x0a, 0x02, 0xff, 0xff})
			},
			code: codes.InvalidArgument, says: "cannot be decoded", counter: func(m *Metrics) prometheus.Metric { return m.garbage },
		},
		{
			name:   "an oversized request",
			limits: func(l *Limits) { l.MessageBytes = 4096 },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(EndpointType, strings.Repeat("x", 5000))); err != nil {
					t.Fatal(err)
				}
				return until(st)
			},
			// The client is told by gRPC; the setting stands in the log.
			code: codes.ResourceExhausted, says: "larger than max (5144 vs. 4096)", logged: "setting xds.maxRequestBytes", counter: func(m *Metrics) prometheus.Metric { return m.garbage },
		},
		{
			name: "no node",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{}, TypeUrl: ClusterType}); err != nil {
					t.Fatal(err)
				}
				return until(st)
			},
			code: codes.InvalidArgument, says: "must carry a node with an id", counter: func(m *Metrics) prometheus.Metric { return m.invalid },
		},
		{
			name: "no type",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first("")); err != nil {
					t.Fatal(err)
				}
				return until(st)
			},
			code: codes.InvalidArgument, says: "must carry a type_url", counter: func(m *Metrics) prometheus.Metric { return m.invalid },
		},
		{
			name:   "too many names",
			limits: func(l *Limits) { l.Names = 10 },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				var names []string
				for i := range 11 {
					names = append(names, fmt.Sprint("n", i))
				}
				if err := st.Send(first(EndpointType, names...)); err != nil {
					t.Fatal(err)
				}
				return until(st)
			},
			code: codes.ResourceExhausted, says: "setting xds.maxNames", counter: func(m *Metrics) prometheus.Metric { return m.invalid },
		},
		{
			name:   "too many types",
			limits: func(l *Limits) { l.Types = 4 },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				for i := range 5 {
					if err := st.Send(first(fmt.Sprint("type.googleapis.com/T", i))); err != nil && err != io.EOF {
						t.Fatal(err)
					}
				}
				return until(st)
			},
			code: codes.ResourceExhausted, says: "more than 4 resource types", counter: func(m *Metrics) prometheus.Metric { return m.invalid },
		},
		{
			name:   "too many streams",
			limits: func(l *Limits) { l.Streams = 3 },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				for range 2 {
					st := deltaStream(t, r, ctx)
					if err := st.Send(first(ListenerType)); err != nil {
						t.Fatal(err)
					}
					if _, err := st.Recv(); err != nil {
						t.Fatal(err)
					}
				}
				return until(deltaStream(t, r, ctx))
			},
			code: codes.ResourceExhausted, says: "setting xds.maxStreams", counter: func(m *Metrics) prometheus.Metric { return m.turnedAway },
		},
		{
			name:   "never acknowledges",
			limits: func(l *Limits) { l.AckTimeout = 200 * time.Millisecond },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(ClusterType)); err != nil {
					t.Fatal(err)
				}
				return until(st)
			},
			code: codes.DeadlineExceeded, says: "setting xds.ackTimeout", counter: func(m *Metrics) prometheus.Metric { return m.ackTimeouts },
		},
		{
			name:   "says nothing",
			limits: func(l *Limits) { l.FirstRequestTimeout = 200 * time.Millisecond },
			attack: func(t *testing.T, r *rig, ctx context.Context) error { return until(deltaStream(t, r, ctx)) },
			code:   codes.DeadlineExceeded, says: "setting xds.firstRequestTimeout", counter: func(m *Metrics) prometheus.Metric { return m.silent },
		},
		{
			name:   "never reads",
			limits: func(l *Limits) { l.SendTimeout = 300 * time.Millisecond },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				// A large answer fills all windows, and the next one has to wait.
				for _, q := range []*discoveryv3.DeltaDiscoveryRequest{first(EndpointType, longName("big:80")), first(ClusterType), first(ListenerType)} {
					if err := st.Send(q); err != nil {
						t.Fatal(err)
					}
				}
				eventually(t, "the stream is ended", func() bool { return count(r.metrics.writeTimeouts) == 1 })
				// The blocked goroutines are let go though the client still does not read.
				eventually(t, "its goroutines end", func() bool { return strings.Count(stacks(), "xds.(*stream).follow(") == 1 })
				return until(st)
			},
			code: codes.DeadlineExceeded, says: "setting xds.sendTimeout", counter: func(m *Metrics) prometheus.Metric { return m.writeTimeouts },
		},
		{
			name: "goes in the middle of an answer",
			attack: func(t *testing.T, r *rig, _ context.Context) error {
				ctx, cancel := context.WithCancel(context.Background())
				st := deltaStream(t, r, ctx)
				for _, q := range []*discoveryv3.DeltaDiscoveryRequest{first(ClusterType), first(EndpointType, longName("big:80")), first(ListenerType)} {
					if err := st.Send(q); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := st.Recv(); err != nil {
					t.Fatal(err)
				}
				cancel()
				err := until(st)
				eventually(t, "its goroutines end", func() bool { return strings.Count(stacks(), "xds.(*stream).follow(") == 1 })
				if got := r.log.String(); got != "" {
					t.Errorf("a client that goes is no warning:\n%s", got)
				}
				return err
			},
			code: codes.Canceled, says: "canceled",
		},
		{
			name: "closes its side",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(ClusterType)); err != nil {
					t.Fatal(err)
				}
				if _, err := st.Recv(); err != nil {
					t.Fatal(err)
				}
				if err := st.CloseSend(); err != nil {
					t.Fatal(err)
				}
				err := until(st)
				if err != io.EOF || r.log.String() != "" {
					t.Errorf("got %v, logged %q", err, r.log)
				}
				return grpcstatus.Error(codes.OK, "")
			},
		},
		{
			name:   "begins too many streams",
			limits: func(l *Limits) { l.StreamRate, l.StreamBurst = 1, 2 }, // the friend takes one
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				var list []discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
				for range 3 { // one at once, one after a second, and one never
					st := deltaStream(t, r, ctx)
					if err := st.Send(first(ListenerType)); err != nil {
						t.Fatal(err)
					}
					list = append(list, st)
				}
				eventually(t, "one is refused", func() bool { return count(r.metrics.hurried) == 1 })
				var refused error
				for _, st := range list {
					if _, err := st.Recv(); err != nil && refused != nil {
						t.Errorf("a second one is refused: %v", err)
					} else if err != nil {
						refused = err
					}
				}
				return refused
			},
			code: codes.ResourceExhausted, says: "settings xds.streamRate and xds.streamBurst", counter: func(m *Metrics) prometheus.Metric { return m.hurried },
		},
		{
			name: "asks for names without end",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				var sender sync.WaitGroup
				defer sender.Wait()
				sender.Go(func() {
					for i := range 500 { // ten million, of which some are read
						names := make([]string, 20_000)
						for j := range names {
							names[j] = fmt.Sprint(i, "-", j)
						}
						if st.Send(first(EndpointType, names...)) != nil {
							break
						}
					}
				})
				return until(st)
			},
			code: codes.ResourceExhausted, says: "setting xds.maxNames", counter: func(m *Metrics) prometheus.Metric { return m.invalid },
		},
		{
			name: "becomes another node",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				for _, id := range []string{"", "", "sidecar~10.0.0.1~other.secret~x"} {
					q := first(ListenerType, "x")
					if id != "" {
						q.Node = &corev3.Node{Id: id}
					}
					if err := st.Send(q); err != nil {
						t.Fatal(err)
					}
				}
				return until(st)
			},
			code: codes.InvalidArgument, says: "the node of a stream cannot change", counter: func(m *Metrics) prometheus.Metric { return m.invalid },
		},
		{
			name: "claims the id of another", // who is that cannot be told without identities: both are served
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(ClusterType)); err != nil {
					t.Fatal(err)
				}
				if _, err := st.Recv(); err != nil {
					t.Fatal(err)
				}
				if list := r.server.Proxies(); len(list) != 2 || list[0].ID != list[1].ID || list[0].Peer == list[1].Peer {
					t.Errorf("clients: %v", list)
				}
				return nil
			},
		},
		{
			name:   "acknowledges what it was not sent, for ever",
			limits: func(l *Limits) { l.AckTimeout = 300 * time.Millisecond },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(ClusterType)); err != nil {
					t.Fatal(err)
				}
				for range 1000 {
					if st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: "no such"}) != nil {
						break
					}
				}
				eventually(t, "it is counted", func() bool { return count(r.metrics.types[0].expired) == 1000 })
				return until(st)
			},
			code: codes.DeadlineExceeded, says: "setting xds.ackTimeout", counter: func(m *Metrics) prometheus.Metric { return m.ackTimeouts },
		},
		{
			name: "gives up what it never asked for",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				q := first(EndpointType, longName("a:80"))
				q.ResourceNamesUnsubscribe = []string{"x", "y", "*", longName("big:80")}
				if err := st.Send(q); err != nil {
					t.Fatal(err)
				}
				m, err := st.Recv()
				if err == nil && (len(m.Resources) != 1 || len(m.RemovedResources) != 0) {
					t.Errorf("got %d resources, removed %v", len(m.Resources), m.RemovedResources)
				}
				return err
			},
		},
		{
			name: "refuses with a flood of words",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(RouteType, proxyName)); err != nil {
					t.Fatal(err)
				}
				m, err := st.Recv()
				if err != nil {
					t.Fatal(err)
				}
				words := "\x1b[31m\nlevel=INFO msg=\"all is well\"\x00\u202e" + strings.Repeat("bad ", 1<<20)
				if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: RouteType, ResponseNonce: m.Nonce, ErrorDetail: &status.Status{Code: 3, Message: words}}); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the refusal", func() bool { return count(r.metrics.types[3].rejects) == 1 })
				reason := ""
				eventually(t, "the status", func() bool {
					for _, p := range r.server.Proxies() {
						for _, x := range p.Types {
							reason += x.Failure
						}
					}
					return reason != ""
				})
				if len(reason) > maxReason || strings.ContainsAny(reason, "\x1b\n\x00\u202e") || !strings.Contains(reason, "all is well") {
					t.Errorf("kept: %q", reason)
				}
				if got := r.log.String(); len(got) > 4*maxReason || strings.Count(got, "\n") != 2 {
					t.Errorf("%d bytes were logged, %d lines", len(got), strings.Count(got, "\n"))
				}
				return nil
			},
		},
		{
			name:   "opens streams and stops reading",
			limits: func(l *Limits) { l.Streams, l.SendTimeout = 60, 300*time.Millisecond },
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				// With windows that do not grow.
				client := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial(grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16)))
				for range 99 {
					st, err := client.DeltaAggregatedResources(ctx)
					if err != nil {
						t.Fatal(err)
					}
					for _, q := range []*discoveryv3.DeltaDiscoveryRequest{first(EndpointType, longName("big:80")), first(ClusterType), first(ListenerType)} {
						if st.Send(q) != nil {
							break
						}
					}
				}
				// Some are refused, and of the others those end that cannot be sent to.
				eventually(t, "streams are refused", func() bool { return count(r.metrics.turnedAway) > 0 })
				eventually(t, "streams are ended", func() bool { return count(r.metrics.writeTimeouts) > 0 })
				return nil
			},
		},
		{
			name: "refuses everything",
			attack: func(t *testing.T, r *rig, ctx context.Context) error {
				st := deltaStream(t, r, ctx)
				if err := st.Send(first(ClusterType)); err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					m, err := st.Recv()
					if err != nil {
						t.Fatal(err)
					}
					if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterType, ResponseNonce: m.Nonce, ErrorDetail: &status.Status{Code: 3, Message: "no good"}}); err != nil {
						t.Fatal(err)
					}
					eventually(t, "the refusal", func() bool { return count(r.metrics.rejects.WithLabelValues("cds")) == float64(i+1) })
					r.change(func(w *world) { w.defineHTTP(key(fmt.Sprint("new", i)), 80) })
				}
				if got := r.log.String(); strings.Count(got, "no good") != 3 || !strings.Contains(got, testNode.Id) {
					t.Errorf("logged:\n%s", got)
				}
				return nil
			},
		},
	} {
		t.Run(h.name, func(t *testing.T) {
			r := newRig(t, rigOptions{limits: h.limits, before: func(w *world) {
				w.defineHTTP(key("a"), 80)
				w.place(key("a"), "10.0.0.1")
				w.defineHTTP(key("big"), 80)
				var list []string
				for i := range 20_000 {
					list = append(list, fmt.Sprintf("10.1.%d.%d", i/256, i%256))
				}
				w.place(key("big"), list...)
			}})
			good := r.connect(true, longName("a:80"))
			good.waitCluster("a:80")
			good.waitEndpoints("a:80", "10.0.0.1")
			good.wait("routes", func() bool { return good.have[RouteType] != nil && good.have[ListenerType] != nil })

			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err := h.attack(t, r, ctx)
			if grpcstatus.Code(err) != h.code || !strings.Contains(grpcstatus.Convert(err).Message(), h.says) {
				t.Errorf("got %v, want %v with %q", err, h.code, h.says)
			}
			eventually(t, "the log", func() bool { return strings.Contains(r.log.String(), h.logged) })
			if h.counter != nil {
				eventually(t, "the counter", func() bool { return count(h.counter(r.metrics)) == 1 })
			}
			r.change(func(w *world) { w.defineHTTP(key("after"), 80); w.place(key("a"), "10.0.0.7") })
			good.waitCluster("after:80")
			good.waitEndpoints("a:80", "10.0.0.7")
			cancel()
			eventually(t, "one stream is left", func() bool { return count(r.metrics.streams) == 1 })
		})
	}
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// A server whose listener fails ends its streams and says so.
func TestServeEndsWithItsListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Source: push.NewPusher(0, 0, nil), Limits: DefaultLimits()}) // no metrics, no log
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&discoveryv3.DiscoveryRequest{Node: testNode, TypeUrl: ClusterType}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream", func() bool { return len(s.Proxies()) == 1 })
	l.Close()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Serve does not return")
	}
}
