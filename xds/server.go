package xds

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"tributary/shards"
)

// Source is where the server finds the snapshot that streams may show, and how
// it hears of a newer one. push.Pusher is one.
type Source interface {
	Released() *shards.Snapshot
	Subscribe() (wake <-chan struct{}, cancel func())
	// Arrived returns when the oldest event arrived of what was released after a
	// revision; zero if that is not known.
	Arrived(after uint64) time.Time
}

// Options configure a server.
type Options struct {
	Source   Source
	Limits   Limits
	Identity string       // told to clients as the control plane's identifier
	Debug    Debug        // answers debug types; nil: nobody does
	Metrics  *Metrics     // nil: nothing is counted
	Log      *slog.Logger // nil: nothing is logged
}

// Server serves ADS.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	source   Source
	limits   Limits
	identity string
	debug    Debug
	metrics  *Metrics
	log      *slog.Logger
	renderer renderer
	grpc     *grpc.Server

	open       chan struct{} // closed when answers may be given
	openOnce   sync.Once
	ids        atomic.Uint64
	begins     bucket
	goroutines sync.WaitGroup // of streams

	mu      sync.Mutex
	streams map[*stream]struct{}
}

// NewServer returns a server that accepts streams at once and answers them
// after Open.
func NewServer(o Options) *Server {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		source: o.Source, limits: o.Limits, identity: o.Identity, debug: o.Debug, metrics: o.Metrics, log: o.Log,
		open: make(chan struct{}), streams: map[*stream]struct{}{},
	}
	s.renderer = renderer{cache: newCache(o.Limits.CacheBytes, o.Metrics), failed: func(url, name string, err error) {
		s.metrics.internalErrors.Inc()
		s.log.Error("rendering a resource", "type", ShortType(url), "name", name, "error", err)
	}}
	s.begins = bucket{rate: o.Limits.StreamRate, burst: o.Limits.StreamBurst}
	s.renderer.quarantine = newQuarantine(maxAccused, s.metrics)
	s.renderer.responseBytes = o.Limits.ResponseBytes
	s.metrics.cacheBytes(s.renderer.cache.size)
	s.metrics.byVersion(s.versions)
	s.metrics.refusing(s.refusing)
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(o.Limits.MessageBytes),
		grpc.MaxConcurrentStreams(uint32(min(o.Limits.ConnectionStreams, math.MaxInt32))),
		grpc.ConnectionTimeout(o.Limits.FirstRequestTimeout),
		// Without TLS it is taken from a pool only while there is something to read.
		// An acknowledgement in the state-of-the-world variant is this long.
		grpc.ReadBufferSize(16<<10),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: o.Limits.FirstRequestTimeout,
			MaxConnectionAge: o.Limits.ConnectionAge, MaxConnectionAgeGrace: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s.grpc, s)
	return s
}

// Open lets streams be answered: every source is complete or was given up.
// Until then streams wait, so that nobody is told that something does not exist
// which was only not heard of yet.
func (s *Server) Open() { s.openOnce.Do(func() { close(s.open) }) }

func (s *Server) isOpen() bool {
	select {
	case <-s.open:
		return true
	default:
		return false
	}
}

// Serve accepts streams on l until ctx ends, and waits for all of them to end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	var watchdog sync.WaitGroup
	done := make(chan struct{})
	watchdog.Go(func() { s.watch(done) })
	err := s.grpc.Serve(&listener{Listener: l, limit: 2 * int64(s.limits.Streams), metrics: s.metrics})
	s.grpc.Stop() // ends the streams also if it was the listener that failed
	close(done)
	watchdog.Wait()
	s.goroutines.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving xDS on %s: %w", l.Addr(), err)
}

// watch ends streams whose clients do not do their part.
func (s *Server) watch(done <-chan struct{}) {
	interval := min(s.limits.SendTimeout, s.limits.AckTimeout, s.limits.FirstRequestTimeout) / 10
	tick := time.NewTicker(min(max(interval, 10*time.Millisecond), time.Second))
	defer tick.Stop()
	var swept uint64
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			s.mu.Lock()
			for str := range s.streams {
				if str.ended {
					continue // it is on its way out
				}
				if err := str.overdue(now); err != nil {
					str.ended = true
					str.end <- err // has room for one
				}
			}
			s.mu.Unlock()
			s.sweep(&swept)
		}
	}
}

// sweep forgets refusals of what is no longer sent, once a revision.
func (s *Server) sweep(swept *uint64) {
	snapshot := s.source.Released()
	if snapshot == nil || snapshot.Revision == *swept {
		return
	}
	*swept = snapshot.Revision
	s.renderer.quarantine.sweep(func(n *Node, url, name string) uint64 {
		v := &view{renderer: &s.renderer, snapshot: snapshot, node: n}
		if res := v.get(url, name); res != nil {
			return res.Hash
		}
		return 0
	})
}

// StreamAggregatedResources implements the state-of-the-world variant.
func (s *Server) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.run(st, false)
}

// DeltaAggregatedResources implements the delta variant.
func (s *Server) DeltaAggregatedResources(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.run(st, true)
}

// admit lets a stream begin, when it is its turn.
func (s *Server) admit(str *stream) error {
	str.id = s.ids.Add(1)
	if err := s.enter(str); err != nil {
		return err
	}
	wait, ok := s.begins.take(time.Now(), longestTurn)
	if ok && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-str.grpc.Context().Done():
			s.dismiss(str)
			return status.FromContextError(str.grpc.Context().Err()).Err()
		}
	}
	if !ok {
		s.dismiss(str)
		s.metrics.hurried.Inc()
		return status.Errorf(codes.ResourceExhausted, "more than %d streams a second begin; try again later (settings xds.streamRate and xds.streamBurst)", s.limits.StreamRate)
	}
	return nil
}

func (s *Server) enter(str *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) >= s.limits.Streams {
		s.metrics.turnedAway.Inc()
		return status.Errorf(codes.ResourceExhausted, "%d streams are open; no more are accepted (setting xds.maxStreams)", len(s.streams))
	}
	s.streams[str] = struct{}{}
	s.metrics.streams.Set(float64(len(s.streams)))
	return nil
}

func (s *Server) dismiss(str *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, str)
	s.metrics.streams.Set(float64(len(s.streams)))
}
