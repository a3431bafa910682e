package debug

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary/xds"
)

// maxDumpBytes bounds the resources in one dump.
const maxDumpBytes = 32 << 20

// Texts of Istio that istioctl looks for.
const (
	noProxyID    = "You must provide a proxyID in the query string"
	notConnected = "Proxy not connected to this Pilot instance. It may be connected to another instance."
)

// configDump shows what a proxy is given, in the form of Envoy's own config_dump.
// Endpoints are in it only if they are asked for, as in Envoy.
func (s *Server) configDump(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	proxy := q.Get("proxyID")
	if proxy == "" {
		text(w, http.StatusBadRequest, []byte(noProxyID+"\n"))
		return
	}
	done, ok := s.walk(w, r)
	if !ok {
		return
	}
	defer done()
	configs, err := s.dump(proxy, q.Has("include_eds"))
	switch {
	case errors.Is(err, xds.ErrNoProxy):
		text(w, http.StatusNotFound, []byte(notConnected+"\n"))
		return
	case errors.Is(err, xds.ErrBusy):
		fail(w, http.StatusServiceUnavailable, err)
		return
	case err != nil:
		fail(w, http.StatusInternalServerError, err)
		return
	}
	b, err := protojson.Marshal(&adminv3.ConfigDump{Configs: configs})
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	// Its spaces are random on purpose.
	var compact bytes.Buffer
	_ = json.Compact(&compact, b) // b is what Marshal made
	writeJSON(w, r, json.RawMessage(compact.Bytes()))
}

// dump returns the sections of a proxy's dump. istioctl compares clusters,
// listeners and routes with those of the Envoy, and wants all sections to be
// there. They are rendered from the snapshot that is released now; where the proxy
// was not told of it yet, the version of the section says so.
func (s *Server) dump(proxy string, endpoints bool) ([]*anypb.Any, error) {
	d, err := s.sources.Dump(proxy, maxDumpBytes)
	if err != nil {
		return nil, err
	}
	var (
		clusters  = &adminv3.ClustersConfigDump{}
		assigned  = &adminv3.EndpointsConfigDump{}
		listeners = &adminv3.ListenersConfigDump{}
		routes    = &adminv3.RoutesConfigDump{}
	)
	for _, t := range d.Types {
		version := t.Version
		if t.Told != t.Revision && t.Told != 0 {
			version = fmt.Sprintf("%s as of revision %d; shown as of revision %d, which the proxy was not told of yet", t.Version, t.Told, t.Revision)
		}
		switch t.URL {
		case xds.ClusterType:
			clusters.VersionInfo = version
		case xds.ListenerType:
			listeners.VersionInfo = version
		}
		for _, r := range t.Resources {
			switch t.URL {
			case xds.ClusterType:
				clusters.DynamicActiveClusters = append(clusters.DynamicActiveClusters,
					&adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: r.Version, Cluster: r.Body})
			case xds.EndpointType:
				assigned.DynamicEndpointConfigs = append(assigned.DynamicEndpointConfigs,
					&adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: r.Version, EndpointConfig: r.Body})
			case xds.ListenerType:
				listeners.DynamicListeners = append(listeners.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{
					Name: r.Name, ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: r.Version, Listener: r.Body}})
			case xds.RouteType:
				routes.DynamicRouteConfigs = append(routes.DynamicRouteConfigs,
					&adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: r.Version, RouteConfig: r.Body})
			}
		}
	}
	sections := []proto.Message{&adminv3.BootstrapConfigDump{}, clusters}
	if endpoints {
		sections = append(sections, assigned)
	}
	sections = append(sections, listeners, &adminv3.ScopedRoutesConfigDump{}, routes, &adminv3.SecretsConfigDump{}, &adminv3.EcdsConfigDump{})
	return wrap(sections)
}

// wrap encodes messages, the same bytes each time.
func wrap(messages []proto.Message) ([]*anypb.Any, error) {
	list := make([]*anypb.Any, len(messages))
	for i, m := range messages {
		list[i] = &anypb.Any{}
		if err := anypb.MarshalFrom(list[i], m, proto.MarshalOptions{Deterministic: true}); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", m.ProtoReflect().Descriptor().Name(), err)
		}
	}
	return list, nil
}
