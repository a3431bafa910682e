package sample

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tributary/clusters"
	"tributary/debug"
	"tributary/model"
	"tributary/shards"
	"tributary/xds"
)

// Fleet is a registry with clusters and proxies that a test can change.
type Fleet struct {
	store *shards.Store

	mu       sync.Mutex
	ready    bool
	clusters []clusters.Status
	proxies  []xds.Proxy
	wakes    map[chan struct{}]struct{}
}

// New returns the fleet as of now.
func New(now time.Time) *Fleet {
	f := &Fleet{store: shards.NewStore(shards.DefaultTombstones), clusters: Clusters(now), proxies: Proxies(now), wakes: map[chan struct{}]struct{}{}}
	f.store.Apply(Delta())
	return f
}

// Sources returns what a debug server is made of.
func (f *Fleet) Sources() debug.Sources {
	return debug.Sources{
		Snapshot: f.store.Load, Wake: f.wake, Registry: prometheus.NewRegistry(), Version: "1.2.3", Address: "127.0.0.1:15014",
		Clusters: func() []clusters.Status { f.mu.Lock(); defer f.mu.Unlock(); return f.clusters },
		Proxies:  func() []xds.Proxy { f.mu.Lock(); defer f.mu.Unlock(); return f.proxies },
		Holders:  f.holders, Dump: f.dump, ConfigCluster: "east", MoveHold: 100 * time.Millisecond,
		Ready: func(time.Time) (bool, []clusters.Waiting) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.ready {
				return true, nil
			}
			return false, []clusters.Waiting{{Cluster: "north", What: "the cluster is syncing: 1 of 3 kinds are complete", Since: f.clusters[1].Added}}
		},
		Inbox: func() map[model.ShardKey]int { return map[model.ShardKey]int{east: 0, west: 17} },
	}
}

func (f *Fleet) wake() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wakes[ch] = struct{}{}
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.wakes, ch)
	}
}

// Waiters returns how many wait for a newer snapshot.
func (f *Fleet) Waiters() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.wakes)
}

// Apply publishes a change of the registry.
func (f *Fleet) Apply(d model.Delta) {
	f.store.Apply(d)
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.wakes {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Remove takes the service reviews out.
func (f *Fleet) Remove() {
	f.Apply(model.Delta{Services: []model.ServiceDelta{{Key: reviews().Definition.Key, Push: model.ServicePush}}})
}

// SetReady makes the fleet ready, or not.
func (f *Fleet) SetReady(ready bool) { f.mu.Lock(); f.ready = ready; f.mu.Unlock() }

// SetProxies replaces the connected proxies.
func (f *Fleet) SetProxies(list []xds.Proxy) { f.mu.Lock(); f.proxies = list; f.mu.Unlock() }

// holders has one client in every state for each name of a port 80, and nobody
// for others.
func (f *Fleet) holders(_ string, names []string) (list []xds.Holder) {
	revision := f.store.Load().Revision
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.proxies {
		for _, name := range names {
			h := xds.Holder{Proxy: p.ID, Connected: p.Connected, Name: name, Shown: revision}
			if port, _, _ := xds.ParseClusterName(name); port != 80 {
				continue
			}
			switch i {
			case 0:
				h.Shown, h.Name, h.Busy = 0, "", true
			case 2:
				h.Shown, h.Open = 0, true
			case 3:
				h.Shown, h.Failure = 0, "malformed address"
			}
			list = append(list, h)
			if h.Busy {
				break
			}
		}
	}
	return list
}

// Clusters returns one cluster in every state that lasts.
func Clusters(now time.Time) []clusters.Status {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	synced := clusters.Status{
		Type: "remote", State: clusters.Synced, Epoch: 1, Known: true, Services: 3, Slices: 4, Workloads: 12, Endpoints: 9,
		SyncDuration: 1250 * time.Millisecond, Since: ago(3 * time.Hour), Added: ago(3*time.Hour + 2*time.Second), LastEvent: ago(12 * time.Second),
	}
	with := func(c clusters.Status, change func(*clusters.Status)) clusters.Status { change(&c); return c }
	return []clusters.Status{
		with(synced, func(c *clusters.Status) { c.ID, c.Type = "east", "local" }),
		{ID: "north", Type: "remote", Secret: "istio-system/north", State: clusters.Syncing, Reason: "1 of 3 kinds are complete", Epoch: 1, Since: ago(4 * time.Second), Added: ago(5 * time.Second), LastEvent: ago(time.Second)},
		{ID: "north-east", Type: "remote", Secret: "istio-system/north-east", State: clusters.Pending, Reason: "dial tcp 192.0.2.7:6443: i/o timeout", LastError: "dial tcp 192.0.2.7:6443: i/o timeout", Epoch: 1, Since: ago(45 * time.Second), Added: ago(45 * time.Second), TimedOut: true},
		with(synced, func(c *clusters.Status) {
			c.ID, c.Secret, c.State, c.Reason, c.Since = "old", "istio-system/old", clusters.Stale, "nothing heard for 12m", ago(7*time.Minute)
			c.LastEvent = ago(12 * time.Minute)
		}),
		{ID: "south", Type: "remote", Secret: "istio-system/south", State: clusters.Denied, Reason: "endpointslices is forbidden: User \"reader\" cannot list resource", Epoch: 1, Since: ago(26 * time.Hour), Added: ago(26 * time.Hour), LastError: "endpointslices is forbidden: User \"reader\" cannot list resource"},
		with(synced, func(c *clusters.Status) {
			c.ID, c.Secret, c.Epoch = "west", "istio-system/west", 3
			c.State, c.Reason = clusters.Suspect, "pods: nothing heard for 17s"
		}),
		{ID: "west", Type: "remote", Secret: "istio-system/west-again", State: clusters.Conflict, Reason: "the ID belongs to secret istio-system/west", Since: ago(10 * time.Minute), Added: ago(10 * time.Minute)},
	}
}

// Proxies returns one proxy in every state.
func Proxies(now time.Time) []xds.Proxy {
	sent := now.Add(-time.Minute)
	types := func(clusterAcked, failure string) []xds.ProxyType {
		return []xds.ProxyType{
			{URL: xds.ClusterType, All: true, Sent: "7", Acked: clusterAcked, Version: "c0ffee", Failure: failure, SentAt: sent, Changed: now},
			{URL: xds.EndpointType, Names: 4, Sent: "9", Acked: "9", Version: "f00d", SentAt: sent, Changed: now},
			{URL: xds.ListenerType, All: true, Sent: "2", Acked: "2", Version: "cafe", SentAt: sent, Changed: now},
			{URL: xds.RouteType, Names: 1, Changed: now},
		}
	}
	id := func(name string) string {
		return "sidecar~10.1.1.1~" + name + ".shop~shop.svc.cluster.local"
	}
	return []xds.Proxy{
		{ID: "envoy-at-the-edge", UserAgent: "envoy", Peer: "127.0.0.1:40004", Connected: now.Add(-20 * time.Second)},
		{ID: id("cart-1"), Cluster: "west", Namespace: "shop", IstioVersion: "1.32.0", UserAgent: "envoy", Peer: "127.0.0.1:40001", Delta: true, Connected: now.Add(-90 * time.Minute), Types: types("7", "")},
		{ID: id("reviews-1"), Cluster: "east", Namespace: "shop", IstioVersion: "1.32.0", UserAgent: "envoy", Peer: "127.0.0.1:40002", Connected: now.Add(-2 * time.Hour), Types: types("6", "")},
		{ID: id("reviews-2"), Cluster: "east", Namespace: "shop", IstioVersion: "1.32.0", UserAgent: "envoy", Peer: "127.0.0.1:40003", Delta: true, Connected: now.Add(-50 * time.Hour), Types: types("6", "cluster outbound|80||cart.shop.svc.cluster.local: unknown field")},
	}
}
