package xds

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// Types that istioctl asks for over xDS in place of a browser (I:4). They are
// questions, no subscriptions: each request is answered once and nothing is
// pushed later; the client does not acknowledge, and one that does is not
// answered again.
const (
	// DebugType asks for a debug page; the one name is its path under /debug/, with
	// its query.
	DebugType = "istio.io/debug"
	// SyncType asks what every client was sent and has acknowledged.
	SyncType = DebugType + "/syncz"
	// ConfigDumpType asks what one client is given; the one name is its.
	ConfigDumpType = DebugType + "/config_dump"
)

// maxDebugBytes bounds an answer to a debug type.
const maxDebugBytes = 64 << 20

// DebugResource is one resource of an answer to a debug type. Its body need not
// be of the type that was asked for.
type DebugResource struct {
	Name string
	Body *anypb.Any
}

// Debug answers a request for a debug type. An error is a gRPC status, which the
// client is told and which ends its stream.
type Debug func(ctx context.Context, url string, names []string) ([]DebugResource, error)

func isDebug(url string) bool { return url == DebugType || strings.HasPrefix(url, DebugType+"/") }

// debugAnswer is the last answer to a debug type on a stream.
type debugAnswer struct {
	nonce string
	name  string // that was asked for
}

// debug answers a request for a debug type. The turn is held, so one question of
// a stream is answered at a time. It does not wait for the server to open: who
// asks wants to know why it is not.
func (str *stream) debug(r request) error {
	s := str.session
	if s.node == nil && r.node.GetId() != "" {
		n := newNode(r.node)
		s.node = &n
	}
	str.silent.Store(0)
	names := r.names
	if s.delta {
		names = r.subscribe
	}
	name := ""
	if len(names) > 0 {
		name = names[0]
	}
	last := str.debugged[r.url]
	switch {
	case r.refused, s.delta && len(names) == 0 && len(r.unsubscribe) > 0,
		r.nonce != "" && r.nonce == last.nonce && (len(names) == 0 || name == last.name):
		return nil // it speaks of an answer, and asks nothing
	case str.server.debug == nil:
		return status.Errorf(codes.Unimplemented, "this server does not answer requests for %s", r.url)
	case !str.local():
		return status.Errorf(codes.PermissionDenied, "requests for %s are answered to clients on this machine only", r.url)
	case r.url != SyncType && len(names) != 1:
		return status.Errorf(codes.InvalidArgument, "a request for %s must have one name, not %d", r.url, len(names))
	}
	answer, err := str.server.debug(str.grpc.Context(), r.url, names)
	if err != nil {
		return err
	}
	resources, size := make([]*Resource, len(answer)), 0
	for i, a := range answer {
		if size += len(a.Body.GetValue()); size > maxDebugBytes {
			return status.Errorf(codes.ResourceExhausted, "the answer to %s %s is larger than %d MiB; the HTTP server has it too", r.url, name, maxDebugBytes>>20)
		}
		resources[i] = newResource(a.Body.GetTypeUrl(), a.Name, a.Body.GetValue())
	}
	s.nonces++
	out := &response{url: r.url, nonce: strconv.FormatUint(s.nonces, 10), version: sumVersion(resources), resources: resources}
	if str.debugged == nil {
		str.debugged = map[string]debugAnswer{}
	}
	if len(str.debugged) < s.limits.Types {
		str.debugged[r.url] = debugAnswer{out.nonce, name}
	}
	f := encodeFrame(out, s.delta, str.server.identity)
	now := time.Now()
	str.sending.Store(now.UnixNano())
	err = str.grpc.SendMsg(f)
	str.sending.Store(0)
	if err == nil {
		str.server.metrics.sent(out, f.size(), time.Since(now))
	}
	return err
}

// local reports whether the client is on this machine: it comes from the
// loopback, or from the address that it connected to. As long as clients do not
// prove who they are, nobody else is told what other clients have.
func (str *stream) local() bool {
	p, ok := peer.FromContext(str.grpc.Context())
	if !ok {
		return false
	}
	from, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return p.Addr.Network() == "unix"
	}
	to, _ := p.LocalAddr.(*net.TCPAddr)
	return from.IP.IsLoopback() || to != nil && from.IP.Equal(to.IP)
}
