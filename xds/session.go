package xds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"tributary/shards"
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
	response  *response
	failure   string    // "" if the client accepted it
	stale     bool      // the request answers an older response
	condemned *Resource // what it refused, if that is known
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
	} else if id := r.node.GetId(); id != "" && id != s.node.ID {
		return verdict{}, status.Error(codes.InvalidArgument, "the node of a stream cannot change; another client needs a stream of its own")
	}
	if r.url == "" {
		return verdict{}, status.Error(codes.InvalidArgument, "a request on an aggregated stream must carry a type_url")
	}
	w, first := s.watches[r.url], false
	if w == nil {
		if len(s.watches) >= s.limits.Types {
			return verdict{}, status.Errorf(codes.ResourceExhausted, "requests for more than %d resource types on one stream (setting xds.maxTypes)", s.limits.Types)
		}
		w, first = s.addWatch(r.url), true
	}
	var out verdict
	if !first && w.response != nil && r.nonce == w.response.nonce {
		out.response = w.response
		failure := ""
		if r.refused {
			failure = cmp.Or(r.failure, "refused without a reason")
		}
		out.condemned = w.settle(failure)
		out.failure = w.failure
	} else {
		out.stale = !first && r.nonce != "" && r.nonce != w.sent
	}
	if s.delta {
		s.subscribeDelta(w, r, first)
	} else {
		s.subscribeSotw(w, r, first)
	}
	if n := max(len(w.names), len(w.owed), len(w.known), len(w.condemned)); n > s.limits.Names {
		return out, status.Errorf(codes.ResourceExhausted, "%d names of type %s on one stream; at most %d are allowed (setting xds.maxNames)", n, ShortType(w.url), s.limits.Names)
	}
	return out, nil
}

// addWatch starts the watch of a type, in the place that its dependencies ask
// for: clusters before their endpoints, listeners before their routes.
func (s *session) addWatch(url string) *watch {
	w := newWatch(url, s.delta)
	s.watches[url] = w
	i := 0
	for i < len(s.order) && rank(s.order[i].url) <= rank(url) {
		i++
	}
	s.order = slices.Insert(s.order, i, w)
	return w
}

// renderedTypes are the types that are rendered, in the order of their
// dependencies.
var renderedTypes = [...]string{ClusterType, EndpointType, ListenerType, RouteType}

// rank orders the types; those that are not rendered come last.
func rank(url string) int {
	for i, t := range renderedTypes {
		if t == url {
			return i
		}
	}
	return len(renderedTypes)
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

// subscribeSotw applies the names of a state-of-the-world request. One that
// answers an older response is ignored. The first request of a type on a stream is
// always a subscription, whatever nonce it carries (I:3).
func (s *session) subscribeSotw(w *watch, r request, first bool) {
	switch {
	case first:
		w.answer = true
		if len(r.names) == 0 && s.node.Class != GRPC && (wholeState(w.url) || !rendered(w.url)) {
			w.startWildcard(nil)
			w.legacy = true
			return
		}
	case r.nonce == "":
		// A new subscription: what was given before is given again.
		w.answer, w.full = true, w.wildcard
		for n := range w.names {
			w.owe(n)
		}
	case r.nonce != w.sent:
		return
	}
	if r.repeated || w.legacy && len(r.names) == 0 {
		return
	}
	w.digest = r.digest
	if w.replaceNames(r.names) && wholeState(w.url) {
		w.answer = true
	}
}

// next returns the next response that is due for v; nil if there is none. At
// most one response of a type is neither acknowledged nor refused. What is new or
// changed goes first, clusters before their endpoints and listeners before their
// routes; what is gone goes last and in the other order, so that nothing is taken
// away that what the client has refers to. An error ends the stream.
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
		if r != nil {
			return s.give(w, r, v)
		}
	}
	for i := len(s.order) - 1; i >= 0; i-- {
		w := s.order[i]
		if len(w.leaving) == 0 || w.response != nil || s.behind(i, v) {
			continue
		}
		if r := w.leave(v); r != nil {
			return s.give(w, r, v)
		}
	}
	return nil, nil
}

// give makes r the response of w that is to be settled.
func (s *session) give(w *watch, r *response, v *view) (*response, error) {
	if err := w.fit(r, v); err != nil {
		return nil, err
	}
	s.nonces++
	r.nonce = strconv.FormatUint(s.nonces, 10)
	w.response, w.sent, w.version = r, r.nonce, r.version
	if w.url == ClusterType {
		s.followClusters(r)
	}
	return r, nil
}

// behind reports whether a type that may refer to what the watch with index i has
// is still to be told of changes, and waits for an acknowledgement first.
func (s *session) behind(i int, v *view) bool {
	for _, w := range s.order[i+1:] {
		if w.url != ListenerType && w.url != RouteType || w.response == nil {
			continue
		}
		if len(w.groups) > 0 || w.cursor < v.snapshot.Revision && len(v.changed(w.url, w.cursor)) > 0 {
			return true
		}
	}
	return false
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

// accepted reports whether the client has acknowledged just what c says, as far as
// that can be told.
func (s *session) accepted(render *renderer, snapshot *shards.Snapshot, c charge) bool {
	w := s.watches[c.url]
	if w == nil || s.node.Class != c.class || !w.wants(c.name) || !w.told || w.full {
		return false
	}
	if w.wholly() {
		return slices.ContainsFunc(w.good, func(res *Resource) bool { return res.Name == c.name && res.Hash == c.hash })
	}
	_, condemned := w.condemned[c.name]
	_, owed := w.owed[c.name]
	if condemned || owed || w.response != nil && w.response.has(c.name) || w.waits(c.name) {
		return false
	}
	if hash, explicit := w.names[c.name]; explicit {
		return hash == c.hash
	}
	v := &view{renderer: render, snapshot: snapshot, node: s.node}
	res := v.get(c.url, c.name)
	return res != nil && res.Hash == c.hash && (w.cursor == snapshot.Revision || !slices.Contains(v.changed(c.url, w.cursor), c.name))
}
