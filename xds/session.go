package xds

import (
	"fmt"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// session is the protocol state of one stream: requests go in, and next makes
// the response that is due. It is a pure state machine; stream.go is its skin.
type session struct {
	delta   bool
	limits  *Limits
	node    *Node // nil before the first request
	watches map[string]*watch
	order   []*watch // in the order in which they are answered
	nonces  uint64

	stale uint64 // requests that answered an older response
}

// request is a discovery request of either variant.
type request struct {
	node    *corev3.Node
	url     string
	nonce   string
	failure string // the client refused the response with that nonce
	refused bool

	// State of the world.
	names    []string
	digest   uint64 // of names; 0 if it is not known
	repeated bool   // the names are those of the watch, and left out

	subscribe, unsubscribe []string // delta
	initial                map[string]string
}

func sotwRequest(r *discoveryv3.DiscoveryRequest) request {
	return request{node: r.Node, url: r.TypeUrl, nonce: r.ResponseNonce, refused: r.ErrorDetail != nil, failure: r.ErrorDetail.GetMessage(), names: r.ResourceNames}
}

// deltaMessage is a DeltaDiscoveryRequest as it came. It is not decoded by the
// codec, whose errors gRPC answers with words of its own.
type deltaMessage []byte

func (m *deltaMessage) request() (request, error) {
	var d discoveryv3.DeltaDiscoveryRequest
	if err := proto.Unmarshal(*m, &d); err != nil {
		return request{}, err
	}
	return deltaRequest(&d), nil
}

func deltaRequest(r *discoveryv3.DeltaDiscoveryRequest) request {
	return request{
		node: r.Node, url: r.TypeUrl, nonce: r.ResponseNonce, refused: r.ErrorDetail != nil, failure: r.ErrorDetail.GetMessage(),
		subscribe: r.ResourceNamesSubscribe, unsubscribe: r.ResourceNamesUnsubscribe, initial: r.InitialResourceVersions,
	}
}

func newSession(delta bool, l *Limits) *session {
	return &session{delta: delta, limits: l, watches: map[string]*watch{}}
}

// verdict is what a request said of an earlier response.
type verdict struct {
	response *response
	failure  string
}

// request takes in a request. An error ends the stream. If the request settles
// a response, the verdict says how.
func (s *session) request(r request) (verdict, error) {
	if s.node == nil {
		if r.node.GetId() == "" {
			return verdict{}, status.Error(codes.InvalidArgument, "the first request of a stream must carry a node with an id")
		}
		n := newNode(r.node)
		s.node = &n
	}
	if r.url == "" {
		return verdict{}, status.Error(codes.InvalidArgument, "a request on an aggregated stream must carry a type_url")
	}
	w, first := s.watches[r.url], false
	if w == nil {
		if len(s.watches) >= s.limits.Types {
			return verdict{}, status.Errorf(codes.ResourceExhausted, "requests for more than %d resource types on one stream", s.limits.Types)
		}
		w, first = s.addWatch(r.url), true
	}
	var out verdict
	if !first && w.response != nil && r.nonce == w.response.nonce {
		out.response = w.response
		if r.refused {
			out.failure = r.failure
			if out.failure == "" {
				out.failure = "refused without a reason"
			}
		}
		w.settle(out.failure)
	}
	if s.delta {
		s.subscribeDelta(w, r, first)
	} else if !s.subscribeSotw(w, r, first) {
		s.stale++
	}
	if n := max(len(w.names), len(w.owed), len(w.known)); n > s.limits.Names {
		return out, status.Errorf(codes.ResourceExhausted, "%d names of type %s on one stream; at most %d are allowed (setting xds.maxNames)", n, ShortType(w.url), s.limits.Names)
	}
	return out, nil
}

// addWatch starts the watch of a type, in the place that its dependencies ask
// for: clusters before their endpoints, listeners before their routes.
func (s *session) addWatch(url string) *watch {
	w := newWatch(url)
	s.watches[url] = w
	i := 0
	for i < len(s.order) && rank(s.order[i].url) <= rank(url) {
		i++
	}
	s.order = slices.Insert(s.order, i, w)
	return w
}

// rank orders the types that are rendered; all others come after them.
func rank(url string) int {
	order := [...]string{ClusterType, EndpointType, ListenerType, RouteType}
	if i := slices.Index(order[:], url); i >= 0 {
		return i
	}
	return len(order)
}

func rendered(url string) bool { return rank(url) <= rank(RouteType) }

// subscribeDelta applies the subscriptions of a delta request. They count
// whatever nonce it carries. A client that reconnects says in its first request
// what it has: only what differs is sent.
func (s *session) subscribeDelta(w *watch, r request, first bool) {
	if !first {
		r.initial = nil
	}
	if first && len(r.subscribe) == 0 && wholeState(w.url) {
		w.startWildcard(r.initial) // legacy form of "*"
	}
	w.subscribe(r.subscribe, r.initial)
	w.unsubscribe(r.unsubscribe)
	if first && !w.wildcard && len(w.names) == 0 {
		w.answer = true // asked for nothing: answered with nothing
	}
}

// subscribeSotw applies the names of a state-of-the-world request; it reports
// false for a request that answers an older response, which is ignored. The first
// request of a type on a stream is always a subscription, whatever nonce it
// carries (I:3).
func (s *session) subscribeSotw(w *watch, r request, first bool) bool {
	switch {
	case first:
		w.answer = true
		if len(r.names) == 0 && (wholeState(w.url) || !rendered(w.url)) {
			w.startWildcard(nil)
			w.legacy = true
			return true
		}
	case r.nonce == "":
		// A new subscription: what was given before is given again.
		w.answer, w.full = true, w.wildcard
		for n := range w.names {
			w.owe(n)
		}
	case r.nonce != w.sent:
		return false
	}
	if r.repeated || w.legacy && len(r.names) == 0 {
		return true
	}
	w.digest = r.digest
	if w.replaceNames(r.names) && wholeState(w.url) {
		w.answer = true
	}
	return true
}

// next returns the next response that is due for v; nil if there is none. At
// most one response of a type is neither acknowledged nor refused. An error ends
// the stream.
func (s *session) next(v *view) (*response, error) {
	for _, w := range s.order {
		if w.response != nil {
			continue
		}
		var r *response
		var err error
		if s.delta {
			r, err = w.delta(v)
		} else {
			r = w.sotw(v)
		}
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		s.nonces++
		r.nonce = strconv.FormatUint(s.nonces, 10)
		w.response, w.sent, w.version = r, r.nonce, r.version
		if w.url == ClusterType {
			s.followClusters(r)
		}
		return r, nil
	}
	return nil, nil
}

// followClusters makes the endpoints of clusters that were just sent due,
// changed or not: Envoy warms a changed cluster until it is given its endpoints
// again (L:B1 A, B).
func (s *session) followClusters(r *response) {
	w := s.watches[EndpointType]
	if w == nil {
		return
	}
	for _, name := range r.touched {
		if _, ok := w.names[name]; ok {
			w.owe(name)
		}
	}
}

func (r *response) String() string {
	return fmt.Sprintf("%s nonce %s: %d resources, %d removed", ShortType(r.url), r.nonce, len(r.resources), len(r.removed))
}
