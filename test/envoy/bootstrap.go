package envoy

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
)

// ADS makes the bootstrap of an Envoy that gets all its configuration from one
// server, as a sidecar in a mesh does.
type ADS struct {
	// Server is the address of the server, IP:port, without TLS.
	Server string
	// SotW asks for the state of the world instead of delta.
	SotW bool
	// Router makes the node a router instead of a sidecar.
	Router bool
	// IP, Name and Namespace are those of the pod that the proxy serves, and
	// give the node's id. 127.0.0.1, "proxy" and "default" if empty.
	IP, Name, Namespace string
	// Cluster is the node's cluster, an application's name; "NAME.NAMESPACE"
	// if empty.
	Cluster string
	// Region, Zone and SubZone are the node's locality.
	Region, Zone, SubZone string
	// Metadata is the node's metadata, such as CLUSTER_ID, NETWORK, LABELS.
	Metadata map[string]any
	// Secrets is the address of a server that gives it its certificates, as an
	// Istio proxy has one in its agent; "" if it has none.
	Secrets string
}

// NodeID returns the node's id: TYPE~IP~NAME.NAMESPACE~NAMESPACE.svc.cluster.local.
func (a ADS) NodeID() string {
	a = a.withDefaults()
	kind := "sidecar"
	if a.Router {
		kind = "router"
	}
	return fmt.Sprintf("%s~%s~%s.%s~%[4]s.svc.cluster.local", kind, a.IP, a.Name, a.Namespace)
}

func (a ADS) withDefaults() ADS {
	set := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	set(&a.IP, "127.0.0.1")
	set(&a.Name, "proxy")
	set(&a.Namespace, "default")
	set(&a.Cluster, a.Name+"."+a.Namespace)
	return a
}

// object is a message in JSON, which is YAML too.
type object = map[string]any

// Bootstrap returns the bootstrap. It panics if Server is no IP:port.
func (a ADS) Bootstrap() string {
	a = a.withDefaults()
	api := "DELTA_GRPC"
	if a.SotW {
		api = "GRPC"
	}
	clusters := []object{grpcCluster("xds", a.Server)}
	if a.Secrets != "" {
		clusters = append(clusters, grpcCluster("sds-grpc", a.Secrets))
	}
	fromADS := object{"resource_api_version": "V3", "ads": object{}}
	b, err := json.MarshalIndent(object{
		"node": object{
			"id": a.NodeID(), "cluster": a.Cluster, "metadata": a.Metadata,
			"locality": object{"region": a.Region, "zone": a.Zone, "sub_zone": a.SubZone},
		},
		"dynamic_resources": object{
			"ads_config": object{
				"api_type": api, "transport_api_version": "V3", "set_node_on_first_message_only": true,
				"grpc_services": []object{{"envoy_grpc": object{
					"cluster_name": "xds",
					// Envoy's own back-off grows to 30 s, and tests restart servers.
					"retry_policy": object{"retry_back_off": object{"base_interval": "0.1s", "max_interval": "1s"}},
				}}},
			},
			"cds_config": fromADS,
			"lds_config": fromADS,
		},
		"static_resources": object{"clusters": clusters},
	}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("envoy: metadata of the node: %v", err))
	}
	return string(b) + "\n"
}

// grpcCluster is a static cluster of one gRPC server.
func grpcCluster(name, server string) object {
	host, portText, err := net.SplitHostPort(server)
	port, err2 := strconv.Atoi(portText)
	if err != nil || err2 != nil {
		panic(fmt.Sprintf("envoy: %q is no IP:port", server))
	}
	return object{
		"name": name, "type": "STATIC", "connect_timeout": "1s",
		"load_assignment": object{"cluster_name": name, "endpoints": []object{{"lb_endpoints": []object{{
			"endpoint": object{"address": object{"socket_address": object{"address": host, "port_value": port}}},
		}}}}},
		"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": object{"http2_protocol_options": object{
				"connection_keepalive": object{"interval": "30s", "timeout": "5s"},
			}},
		}},
	}
}
