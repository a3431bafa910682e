package xds

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"tributary/model"
)

// Mutual TLS as in Istio: an endpoint whose workload has a sidecar is reached
// with the client's own certificate, any other in plaintext. Certificates are not
// ours: a client of a mesh has them from its own agent, over a static cluster of
// its bootstrap. So only a client that says it is Istio's is told of it.
const (
	tlsModeLabel  = "security.istio.io/tlsMode"
	tlsModeField  = "tlsMode"
	tlsModeMutual = "istio"

	socketMatch   = "envoy.transport_socket_match"
	secretCluster = "sds-grpc" // of an Istio proxy's bootstrap
	ownSecret     = "default"
	rootSecret    = "ROOTCA"
	trustDomain   = "cluster.local"
)

// tlsMetadata is the filter metadata of an endpoint that accepts mutual TLS,
// encoded.
var tlsMetadata = func() []byte {
	m := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		socketMatch: {Fields: map[string]*structpb.Value{tlsModeField: structpb.NewStringValue(tlsModeMutual)}},
	}}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // it is constant
	}
	return b
}()

// speaksTLS reports whether a workload accepts mutual TLS: its injector says so
// by a label.
func speaksTLS(w *model.WorkloadInstance) bool {
	mode, _ := w.Labels.Get(tlsModeLabel)
	return mode == tlsModeMutual
}

// socketMatches returns how to connect to the endpoints of a port: mutual TLS
// with those that accept it, plaintext with the others. The server must show one
// of the service's accounts.
func socketMatches(d *model.Definition, p model.Port) ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	alpn := []string{"istio-peer-exchange", "istio"}
	if p.Protocol.IsHTTP2() {
		alpn = append(alpn, "h2")
	}
	var names []*matcherv3.StringMatcher
	for _, account := range d.Accounts {
		names = append(names, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: spiffeID(account)}})
	}
	mutual, err := anypb.New(&tlsv3.UpstreamTlsContext{
		Sni: "outbound_." + routeName(p.Number) + "_._." + d.Key.Host,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols:                  alpn,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(ownSecret)},
			ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
				CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
					//nolint:staticcheck // the typed form is unknown to the oldest proxies, and Istio itself uses this one
					DefaultValidationContext:         &tlsv3.CertificateValidationContext{MatchSubjectAltNames: names},
					ValidationContextSdsSecretConfig: secret(rootSecret),
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	raw, err := anypb.New(&rawbufferv3.RawBuffer{})
	if err != nil {
		return nil, err
	}
	return []*clusterv3.Cluster_TransportSocketMatch{
		{
			Name:  "tlsMode-istio",
			Match: &structpb.Struct{Fields: map[string]*structpb.Value{tlsModeField: structpb.NewStringValue(tlsModeMutual)}},
			TransportSocket: &corev3.TransportSocket{
				Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: mutual},
			},
		},
		{
			Name:  "tlsMode-disabled",
			Match: &structpb.Struct{},
			TransportSocket: &corev3.TransportSocket{
				Name: "envoy.transport_sockets.raw_buffer", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: raw},
			},
		},
	}, nil
}

// secret names a secret of the proxy's own agent.
func secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ResourceApiVersion:  corev3.ApiVersion_V3,
		InitialFetchTimeout: durationpb.New(0),
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: secretCluster},
			}}},
		}},
	}}
}

// spiffeID returns the identity of an account, "namespace/account". What is an
// identity already stays as it is.
func spiffeID(account string) string {
	if strings.Contains(account, "://") {
		return account
	}
	namespace, name, _ := strings.Cut(account, "/")
	return "spiffe://" + trustDomain + "/ns/" + namespace + "/sa/" + name
}
