package debug

import (
	"net/http"
	"strings"
	"time"

	"tributary/clusters"
	"tributary/xds"
)

// istioCluster is an element of Istio's clusterz.
type istioCluster struct {
	ID         string `json:"id"`
	SecretName string `json:"secretName"`
	SyncStatus string `json:"syncStatus"`
}

// clusterz lists what Istio would list: clusters that are, or will be, watched.
// Secrets that are refused are in our own API.
func (s *Server) clusterz(w http.ResponseWriter, r *http.Request) {
	list := []istioCluster{}
	for _, c := range s.sources.Clusters() {
		if c.Epoch == 0 && (c.State == clusters.Invalid || c.State == clusters.Conflict || c.State == clusters.Removed) {
			continue
		}
		list = append(list, istioCluster{string(c.ID), c.Secret, c.SyncStatus()})
	}
	writeJSON(w, r, list)
}

// istioSync is an element of Istio's syncz.
type istioSync struct {
	ClusterID     string                   `json:"cluster_id,omitempty"`
	ProxyID       string                   `json:"proxy,omitempty"`
	ProxyType     string                   `json:"proxy_type,omitempty"`
	IstioVersion  string                   `json:"istio_version,omitempty"`
	ClusterSent   string                   `json:"cluster_sent,omitempty"`
	ClusterAcked  string                   `json:"cluster_acked,omitempty"`
	ListenerSent  string                   `json:"listener_sent,omitempty"`
	ListenerAcked string                   `json:"listener_acked,omitempty"`
	RouteSent     string                   `json:"route_sent,omitempty"`
	RouteAcked    string                   `json:"route_acked,omitempty"`
	EndpointSent  string                   `json:"endpoint_sent,omitempty"`
	EndpointAcked string                   `json:"endpoint_acked,omitempty"`
	Resources     map[string]istioResource `json:"resources,omitempty"`
}

type istioResource struct {
	Sent      string    `json:"sent,omitempty"`
	Acked     string    `json:"acked,omitempty"`
	SentTime  time.Time `json:"sentTime,omitzero"`
	LastError string    `json:"lastError,omitempty"`
}

func (s *Server) syncz(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	list := []istioSync{}
	for _, p := range s.sources.Proxies() {
		if namespace != "" && namespace != p.Namespace {
			continue
		}
		list = append(list, newIstioSync(&p))
	}
	writeJSON(w, r, list)
}

func newIstioSync(p *xds.Proxy) istioSync {
	v := istioSync{
		ClusterID: string(p.Cluster), ProxyID: p.ID, IstioVersion: p.IstioVersion, Resources: make(map[string]istioResource, len(p.Types)),
	}
	if kind, _, ok := strings.Cut(p.ID, "~"); ok {
		v.ProxyType = kind
	}
	for _, t := range p.Types {
		v.Resources[t.URL] = istioResource{t.Sent, t.Acked, t.SentAt, t.Failure}
		switch t.URL {
		case xds.ClusterType:
			v.ClusterSent, v.ClusterAcked = t.Sent, t.Acked
		case xds.ListenerType:
			v.ListenerSent, v.ListenerAcked = t.Sent, t.Acked
		case xds.RouteType:
			v.RouteSent, v.RouteAcked = t.Sent, t.Acked
		case xds.EndpointType:
			v.EndpointSent, v.EndpointAcked = t.Sent, t.Acked
		}
	}
	return v
}
