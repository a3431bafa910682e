package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Resource is one dynamic resource that Envoy holds.
type Resource struct {
	// Version is that of the response, or in delta of the resource, that
	// brought it.
	Version string
	// JSON is the resource itself.
	JSON json.RawMessage
}

// Dump is the dynamic configuration that Envoy holds, by the resources' names.
type Dump struct {
	// Clusters are in use.
	Clusters map[string]Resource
	// Warming are clusters that wait for their endpoints; an older version of
	// the same name may be in Clusters.
	Warming map[string]Resource
	// Listeners are in use.
	Listeners map[string]Resource
	// Routes are route configurations.
	Routes map[string]Resource
	// Endpoints are cluster load assignments.
	Endpoints map[string]Resource
	// Errors tells why the last update of a cluster or listener was refused.
	Errors map[string]string
}

// ConfigDump returns the dynamic configuration that Envoy holds.
func (e *Envoy) ConfigDump(ctx context.Context) (*Dump, error) {
	body, err := e.Get(ctx, "/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	d, err := parseDump(body)
	if err != nil {
		return nil, fmt.Errorf("reading envoy's configuration: %w", err)
	}
	return d, nil
}

// state is what the sections of a dump say of one resource: under active_state
// for listeners, at top level for all else.
type state struct {
	VersionInfo    string          `json:"version_info"`
	Cluster        json.RawMessage `json:"cluster"`
	Listener       json.RawMessage `json:"listener"`
	RouteConfig    json.RawMessage `json:"route_config"`
	EndpointConfig json.RawMessage `json:"endpoint_config"`
	ActiveState    *state          `json:"active_state"`
	ErrorState     *struct {
		Details             string          `json:"details"`
		FailedConfiguration json.RawMessage `json:"failed_configuration"`
	} `json:"error_state"`
}

// section is the part of a dump about one kind. A section has the fields of
// its kind alone.
type section struct {
	Type            string  `json:"@type"`
	ActiveClusters  []state `json:"dynamic_active_clusters"`
	WarmingClusters []state `json:"dynamic_warming_clusters"`
	Listeners       []state `json:"dynamic_listeners"`
	Routes          []state `json:"dynamic_route_configs"`
	Endpoints       []state `json:"dynamic_endpoint_configs"`
}

func parseDump(body []byte) (*Dump, error) {
	var answer struct{ Configs []json.RawMessage }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	d := &Dump{
		Clusters: map[string]Resource{}, Warming: map[string]Resource{}, Listeners: map[string]Resource{},
		Routes: map[string]Resource{}, Endpoints: map[string]Resource{}, Errors: map[string]string{},
	}
	for _, raw := range answer.Configs {
		var kind struct {
			Type string `json:"@type"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, err
		}
		switch kind.Type[strings.LastIndex(kind.Type, ".")+1:] {
		case "ClustersConfigDump", "ListenersConfigDump", "RoutesConfigDump", "EndpointsConfigDump":
		default:
			continue
		}
		var s section
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Type, err)
		}
		for _, fill := range []struct {
			into   map[string]Resource
			states []state
		}{
			{d.Clusters, s.ActiveClusters}, {d.Warming, s.WarmingClusters},
			{d.Listeners, s.Listeners}, {d.Routes, s.Routes}, {d.Endpoints, s.Endpoints},
		} {
			for _, st := range fill.states {
				if err := d.add(fill.into, st); err != nil {
					return nil, fmt.Errorf("%s: %w", kind.Type, err)
				}
			}
		}
	}
	return d, nil
}

// add files one resource under its name.
func (d *Dump) add(into map[string]Resource, s state) error {
	at := &s
	if s.ActiveState != nil {
		at = s.ActiveState
	}
	for _, raw := range []json.RawMessage{at.Cluster, at.Listener, at.RouteConfig, at.EndpointConfig} {
		if raw == nil {
			continue
		}
		name, err := nameOf(raw)
		if err != nil {
			return err
		}
		into[name] = Resource{Version: at.VersionInfo, JSON: raw}
	}
	if s.ErrorState != nil && s.ErrorState.FailedConfiguration != nil {
		name, err := nameOf(s.ErrorState.FailedConfiguration)
		if err != nil {
			return err
		}
		d.Errors[name] = s.ErrorState.Details
	}
	return nil
}

// nameOf returns the name that a resource has in itself; that of an assignment
// is its cluster's.
func nameOf(resource json.RawMessage) (string, error) {
	var named struct {
		Name        string
		ClusterName string `json:"cluster_name"`
	}
	if err := json.Unmarshal(resource, &named); err != nil {
		return "", err
	}
	if named.Name == "" {
		return named.ClusterName, nil
	}
	return named.Name, nil
}
