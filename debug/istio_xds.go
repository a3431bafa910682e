package debug

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"tributary/xds"
)

// maxPageBytes bounds a page that is asked for over xDS, where it has to be held
// in memory as a whole.
const maxPageBytes = 32 << 20

// XDS answers what istioctl asks over xDS; it is an xds.Debug. The answers are
// those of the pages of the same name.
func (s *Server) XDS(ctx context.Context, url string, names []string) ([]xds.DebugResource, error) {
	switch url {
	case xds.SyncType:
		return s.clientConfigs()
	case xds.ConfigDumpType:
		return s.dumpResources(ctx, names[0])
	case xds.DebugType:
		return s.pageResource(ctx, names[0])
	}
	return nil, status.Errorf(codes.InvalidArgument, "nothing is known as %s; there are %s, %s and %s", url, xds.SyncType, xds.ConfigDumpType, xds.DebugType)
}

// clientConfigs tells of every proxy how it stands with each type, in the words of
// Envoy's client status. Who subscribes to nothing is no proxy: istioctl itself is
// one of those.
func (s *Server) clientConfigs() ([]xds.DebugResource, error) {
	var list []xds.DebugResource
	for _, p := range s.sources.Proxies() {
		if len(p.Types) == 0 {
			continue
		}
		bodies, err := wrap([]proto.Message{clientConfig(&p)})
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		list = append(list, xds.DebugResource{Name: p.ID, Body: bodies[0]})
	}
	return list, nil
}

func clientConfig(p *xds.Proxy) *statusv3.ClientConfig {
	metadata := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for key, value := range map[string]string{"CLUSTER_ID": string(p.Cluster), "NAMESPACE": p.Namespace, "ISTIO_VERSION": p.IstioVersion} {
		if value != "" {
			metadata.Fields[key] = structpb.NewStringValue(value)
		}
	}
	c := &statusv3.ClientConfig{Node: &corev3.Node{Id: p.ID, Metadata: metadata}}
	for _, t := range p.Types {
		g := &statusv3.ClientConfig_GenericXdsConfig{TypeUrl: t.URL, VersionInfo: t.Version, ConfigStatus: configStatus(&t)}
		if !t.SentAt.IsZero() {
			g.LastUpdated = timestamppb.New(t.SentAt)
		}
		if t.Failure != "" {
			g.ErrorState = &adminv3.UpdateFailureState{Details: t.Failure, LastUpdateAttempt: g.LastUpdated}
		}
		c.GenericXdsConfigs = append(c.GenericXdsConfigs, g)
	}
	return c
}

func configStatus(t *xds.ProxyType) statusv3.ConfigStatus {
	switch {
	case t.Failure != "":
		return statusv3.ConfigStatus_ERROR
	case t.Sent == "":
		return statusv3.ConfigStatus_NOT_SENT
	case t.Sent == t.Acked:
		return statusv3.ConfigStatus_SYNCED
	}
	return statusv3.ConfigStatus_STALE
}

// dumpResources returns the sections of a dump as resources without a name, which
// is what istioctl makes a dump of. Of a proxy that is not connected there are
// none, as in Istio: of the text of an error istioctl shows no more than "closed",
// at times.
func (s *Server) dumpResources(ctx context.Context, proxy string) ([]xds.DebugResource, error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-time.After(walkPatience):
		return nil, status.Errorf(codes.Unavailable, "%d requests for the whole registry are running already", maxWalks)
	}
	configs, err := s.dump(proxy, false)
	switch {
	case errors.Is(err, xds.ErrNoProxy):
		return nil, nil
	case errors.Is(err, xds.ErrBusy):
		return nil, status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, xds.ErrTooLarge):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return nil, status.Error(codes.Internal, err.Error())
	}
	list := make([]xds.DebugResource, len(configs))
	for i, c := range configs {
		list[i].Body = c
	}
	return list, nil
}

// pageResource returns a debug page as the one resource of an answer, with
// whatever the page says of a mistake.
func (s *Server) pageResource(ctx context.Context, name string) ([]xds.DebugResource, error) {
	w := &captured{header: http.Header{}, limit: maxPageBytes}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/debug/"+name, nil)
	if err == nil {
		_, err = url.ParseQuery(r.URL.RawQuery)
	}
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%q is not the path of a debug page: %v", name, err)
	}
	if handler := s.overXDS(r.URL.Path); handler != nil {
		handler(w, r)
	} else {
		// istioctl looks for the first words, and shows the list of pages then.
		fmt.Fprintf(w, "404 page not found: nothing is known as %s; the page list names what there is\n", r.URL.Path)
	}
	if w.full {
		return nil, status.Errorf(codes.ResourceExhausted, "the page %s is larger than %d MiB; the HTTP server gives it in parts", r.URL.Path, maxPageBytes>>20)
	}
	return []xds.DebugResource{{Name: name, Body: &anypb.Any{TypeUrl: xds.DebugType, Value: w.body.Bytes()}}}, nil
}

// overXDS returns the handler of a page that is given over xDS; nil if it is none.
func (s *Server) overXDS(path string) http.HandlerFunc {
	if path == "/debug/list" {
		return s.listXDS
	}
	for _, r := range s.routes {
		if r.Path == path && r.overXDS() {
			return r.handler
		}
	}
	return nil
}

// overXDS reports whether a page is given over xDS: it tells of the registry, and
// is not a profile of the process.
func (r *route) overXDS() bool { return r.group == groupRegistry }

// listXDS lists the pages that are given over xDS.
func (s *Server) listXDS(w http.ResponseWriter, r *http.Request) {
	names := []string{"list"}
	for _, l := range s.routes {
		if l.overXDS() {
			names = append(names, strings.TrimPrefix(l.Path, "/debug/"))
		}
	}
	writeJSON(w, r, names)
}

// captured is an answer that is kept, up to a limit.
type captured struct {
	header http.Header
	body   bytes.Buffer
	limit  int
	full   bool
}

func (c *captured) Header() http.Header { return c.header }
func (c *captured) WriteHeader(int)     {}

func (c *captured) Write(b []byte) (int, error) {
	if c.full = c.full || c.body.Len()+len(b) > c.limit; c.full {
		return 0, fmt.Errorf("the answer is larger than %d bytes", c.limit)
	}
	return c.body.Write(b)
}

// Identifier is what the xDS server calls itself, in the form in which istioctl
// reads it: proxy-status shows the instance, version the version.
func Identifier(instance, version string) string {
	b, err := json.Marshal(map[string]any{
		"Component": "tributary", "ID": instance,
		"Info": map[string]string{"version": version, "golang_version": runtime.Version()},
	})
	if err != nil {
		panic(fmt.Sprintf("debug: an object of strings: %v", err)) // cannot be
	}
	return string(b)
}
