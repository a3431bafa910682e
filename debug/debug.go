package debug

import (
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tributary/clusters"
	"tributary/model"
	"tributary/shards"
	"tributary/xds"
)

// Sources is where the pages find what they show. All functions may be called
// from any goroutine and must not wait for anything.
type Sources struct {
	// Snapshot returns what clients may see; nil before there is any.
	Snapshot func() *shards.Snapshot
	// Wake returns a channel that gets a value when there is a newer snapshot,
	// and what ends the subscription.
	Wake func() (wake <-chan struct{}, cancel func())
	// Clusters and Ready are those of clusters.Manager.
	Clusters func() []clusters.Status
	Ready    func(now time.Time) (ready bool, waiting []clusters.Waiting)
	// Proxies lists the connected clients, sorted.
	Proxies func() []xds.Proxy
	// Dump returns what one client is given, of no more than limit bytes.
	Dump func(proxy string, limit int) (*xds.Dump, error)
	// Holders lists the clients that subscribe to resources of a type by name.
	Holders func(url string, names []string) []xds.Holder
	// Inbox returns how many rows of each source wait for the core.
	Inbox func() map[model.ShardKey]int
	// Registry is shown at /metrics and gets the metrics of this package.
	Registry *prometheus.Registry
	// ConfigCluster is the cluster whose definitions win.
	ConfigCluster model.ClusterID
	// MoveHold is how long an endpoint waits that moves between slices.
	MoveHold time.Duration
	// Version of the program.
	Version string
	// Address is what the server was told to listen on. Its host is accepted in
	// requests, beside the names of the loopback.
	Address string
}

// Server answers HTTP requests.
type Server struct {
	sources Sources
	started time.Time
	now     func() time.Time
	tally   *tally
	hub     *hub
	handler http.Handler
	routes  []route
	busy    chan struct{} // requests that walk the whole registry

	hosts    atomic.Pointer[hosts]
	handlers sync.WaitGroup
}

// route is one endpoint as it stands in the index.
type route struct {
	Path    string `json:"path"`
	Help    string `json:"help"`
	group   string
	handler http.HandlerFunc
}

// New returns a server that shows sources. It registers its metrics.
func New(sources Sources) *Server {
	s := &Server{sources: sources, started: time.Now(), now: time.Now, tally: newTally(), busy: make(chan struct{}, maxWalks)}
	s.hub = newHub(s)
	s.hosts.Store(newHosts(sources.Address, nil))
	s.routes = s.allRoutes()
	mux := http.NewServeMux()
	for _, r := range s.routes {
		mux.HandleFunc(r.Path, r.handler)
	}
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc("/static/{file}", s.static)
	mux.HandleFunc("/debug/{$}", s.index)
	mux.HandleFunc("/debug/pprof/{profile}", pprof.Index)
	mux.HandleFunc("/api/", noSuchAPI)
	s.handler = s.guard(mux)
	sources.Registry.MustRegister(&collector{s})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// The groups of the index, in its order.
const (
	groupHealth   = "Health and metrics"
	groupRegistry = "Registry, in Istio's shapes"
	groupAPI      = "API"
	groupProcess  = "Process"
)

func (s *Server) allRoutes() []route {
	metrics := promhttp.HandlerFor(s.sources.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
	return []route{
		{"/healthz", "200 while the process runs", groupHealth, s.healthz},
		{"/readyz", "200 once the registry is complete; ?verbose tells what is waited for, and since when", groupHealth, s.readyz},
		{"/ready", "the same as /readyz, under the name that istiod has", groupHealth, s.readyz},
		{"/metrics", "metrics for Prometheus", groupHealth, metrics.ServeHTTP},

		{"/debug/clusterz", "clusters and whether they are synced", groupRegistry, s.clusterz},
		{"/debug/registryz", "services as merged from all clusters", groupRegistry, s.registryz},
		{"/debug/endpointShardz", "endpoints by service, provider and cluster", groupRegistry, s.endpointShardz},
		{"/debug/endpointz", "the same as /debug/endpointShardz", groupRegistry, s.endpointShardz},
		{"/debug/explain", "why endpoints are served or not; ?host= ?address= ?namespace= ?format=json", groupRegistry, s.explain},
		{"/debug/syncz", "what each connected proxy was sent and has acknowledged; ?namespace= filters", groupRegistry, s.syncz},
		{"/debug/config_dump", "what a proxy is given, as in Envoy's own; ?proxyID= ?include_eds", groupRegistry, s.configDump},

		{"/api/v1/clusters", "clusters with state, reason and counts; ?name=", groupAPI, s.apiClusters},
		{"/api/v1/services", "services; ?q= ?name= ?host= ?namespace= ?cluster= ?limit= ?continue=", groupAPI, s.apiServices},
		{"/api/v1/endpoints", "endpoints, served or why not; ?name= ?host= ?namespace= ?cluster= ?state= ?limit= ?continue=", groupAPI, s.apiEndpoints},
		{"/api/v1/proxies", "connected proxies and what they have; ?name= ?namespace= ?cluster= ?limit= ?continue=", groupAPI, s.apiProxies},
		{"/api/v1/events", "server-sent events: a message when something changed", groupAPI, s.events},

		{"/debug", "this index", groupProcess, s.index},
		{"/debug/list", "names of the debug endpoints as JSON; ?verbose describes them", groupProcess, s.list},
		{"/debug/pprof/", "profiles of the process", groupProcess, pprof.Index},
		{"/debug/pprof/cmdline", "the command line of the process", groupProcess, pprof.Cmdline},
		{"/debug/pprof/profile", "CPU profile; ?seconds=", groupProcess, pprof.Profile},
		{"/debug/pprof/symbol", "names of program counters", groupProcess, pprof.Symbol},
		{"/debug/pprof/trace", "execution trace; ?seconds=", groupProcess, pprof.Trace},
	}
}

// snapshot returns what clients may see; an empty one before there is any.
func (s *Server) snapshot() *shards.Snapshot {
	if snap := s.sources.Snapshot(); snap != nil {
		return snap
	}
	return empty
}

var empty = shards.NewStore(0).Load()
