package xds

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"tributary/model"
)

// Node is who a client says it is, in the form that Istio's proxies use: the id
// is TYPE~ADDRESS~NAME.NAMESPACE~DOMAIN, metadata refines it. Any other id is
// accepted; such a client has no namespace, so it gets no short names.
type Node struct {
	ID           string
	Class        Class
	Type         string // first part of the id: "sidecar", "router"
	Address      string
	Namespace    string
	Domain       string // what short names are relative to, such as cluster.local
	Cluster      model.ClusterID
	NodeName     string // of the Kubernetes node that it runs on
	IstioVersion string
	TLS          bool // it has the certificates of a mesh
	UserAgent    string
	ProxyPort    uint16 // where its outbound HTTP listener listens
}

// DefaultProxyPort is the port of the outbound HTTP listener, unless the node's
// metadata HTTP_PROXY_PORT gives another.
const DefaultProxyPort = 15080

func newNode(n *corev3.Node) Node {
	node := Node{ID: n.GetId(), Class: classOf(n), ProxyPort: DefaultProxyPort, UserAgent: n.GetUserAgentName(), Domain: "cluster.local"}
	if parts := strings.Split(n.GetId(), "~"); len(parts) == 4 {
		node.Type, node.Address = parts[0], parts[1]
		if i := strings.LastIndexByte(parts[2], '.'); i >= 0 {
			node.Namespace = parts[2][i+1:]
		}
		if _, domain, ok := strings.Cut(parts[3], ".svc."); ok && domain != "" {
			node.Domain = domain
		}
	}
	md := n.GetMetadata().GetFields()
	if v := md["NAMESPACE"].GetStringValue(); v != "" {
		node.Namespace = v
	}
	node.Cluster = model.ClusterID(md["CLUSTER_ID"].GetStringValue())
	node.NodeName = md["NODE_NAME"].GetStringValue()
	node.IstioVersion = md["ISTIO_VERSION"].GetStringValue()
	node.TLS = node.IstioVersion != "" && node.Class != GRPC
	if p, ok := portValue(md["HTTP_PROXY_PORT"]); ok {
		node.ProxyPort = p
	}
	return node
}

// portValue reads a port given as a number or as text, as both occur.
func portValue(v *structpb.Value) (uint16, bool) {
	n := v.GetNumberValue()
	if s := v.GetStringValue(); s != "" {
		p, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return 0, false
		}
		n = float64(p)
	}
	return uint16(n), n >= 1 && n <= 65535
}
