package xds

import (
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"tributary/model"
)

const httpProtocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// adsSource is the configuration source "this stream". The fetch timeout is
// off as in Istio: a cluster without its endpoints must not become active.
func adsSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(0),
	}
}

// renderCluster renders the cluster of a port of a service, which is either
// balanced over or direct.
func renderCluster(name string, d *model.Definition, p model.Port, how reach, tls bool) (*Resource, error) {
	c := &clusterv3.Cluster{
		Name:            name,
		ConnectTimeout:  durationpb.New(10 * time.Second),
		CircuitBreakers: noCircuitBreakers(),
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"istio": {Fields: map[string]*structpb.Value{"services": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{
				structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
					"host":      structpb.NewStringValue(d.Key.Host),
					"name":      structpb.NewStringValue(d.Winner.Name),
					"namespace": structpb.NewStringValue(d.Key.Namespace),
				}}),
			}})}},
		}},
	}
	if how == direct {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	} else {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: adsSource(), ServiceName: name}
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
	}
	if tls && how == balanced {
		// Where the address is the client's own choice, no endpoint says what it
		// accepts. Plaintext is what all do whose policy asks for no more; policy is
		// not rendered yet.
		matches, err := socketMatches(d, p)
		if err != nil {
			return nil, err
		}
		c.TransportSocketMatches = matches
	}
	options := &upstreamv3.HttpProtocolOptions{}
	switch {
	case p.Protocol.IsHTTP2():
		options.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
			},
		}
	case p.Protocol == model.Unknown:
		// Nobody said what the port speaks: as the client does.
		options.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &upstreamv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{}, Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
			},
		}
	}
	if options.UpstreamProtocolOptions != nil {
		packed, err := anypb.New(options)
		if err != nil {
			return nil, err
		}
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpProtocolOptions: packed}
	}
	return encode(ClusterType, name, c)
}

// noCircuitBreakers lifts Envoy's defaults of 1,024 connections and requests a
// cluster, as Istio does: limits are policy, and none was set.
func noCircuitBreakers() *clusterv3.CircuitBreakers {
	most := wrapperspb.UInt32(math.MaxUint32)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: most, MaxPendingRequests: most, MaxRequests: most, MaxRetries: most, TrackRemaining: true,
	}}}
}

// validated is implemented by every message of Envoy's API.
type validated interface {
	proto.Message
	Validate() error
}

// encode validates a message, as one that breaks Envoy's rules would make it
// refuse the whole response, and encodes it deterministically: equal messages
// must have equal versions.
func encode(url, name string, m validated) (*Resource, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return newResource(url, name, body), nil
}
