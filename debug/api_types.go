package debug

import (
	"time"

	"tributary/clusters"
)

// List is one page of the API. It is of one revision; the next page, asked for
// with what Continue says, may be of a newer one.
type List[T any] struct {
	Revision uint64 `json:"revision"`
	// Unheard lists clusters of which nothing is known yet: what they hold is
	// missing here, which is not the same as not being there.
	Unheard  []string `json:"unheardClusters,omitempty"`
	Items    []T      `json:"items"`
	Total    int      `json:"total"` // of what was asked for, on all pages; -1 if that was not counted
	Continue string   `json:"continue,omitempty"`
}

// Cluster is one cluster, or a secret that wanted to be one.
type Cluster struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"`
	Secret    string     `json:"secret,omitempty"`
	File      string     `json:"file,omitempty"` // of its kubeconfig
	Dir       string     `json:"dir,omitempty"`
	State     string     `json:"state"`
	Reason    string     `json:"reason,omitempty"`
	Since     time.Time  `json:"since"`
	Added     time.Time  `json:"added"`
	Epoch     uint64     `json:"epoch"`
	Known     bool       `json:"known"`
	TimedOut  bool       `json:"timedOut,omitempty"` // readiness does not wait for it any more
	LastError string     `json:"lastError,omitempty"`
	LastEvent *time.Time `json:"lastEvent,omitempty"`
	Remarks   []string   `json:"remarks,omitempty"` // what is missing of it without being a trouble
	// Removal is set while it is on its way out, after its secret has gone.
	Removal *Removal `json:"removal,omitempty"`
	// Probe is how its API server answers; left out if it is not asked.
	Probe *clusters.ProbeStatus `json:"probe,omitempty"`
	// Kinds tells of each kind how it is heard.
	Kinds []clusters.KindStatus `json:"kinds,omitempty"`
	// Now is what the registry has of it; left out while nothing is known.
	Now *Tally `json:"now,omitempty"`
	// AtSync is what it held when it was complete first.
	AtSync *AtSync `json:"atSync,omitempty"`
}

// Removal is how a cluster leaves: frozen until Begins, then in steps until Ends.
type Removal struct {
	Begins time.Time `json:"begins"`
	Ends   time.Time `json:"ends"`
	Served uint8     `json:"servedPercent"` // of its endpoints, now
}

// AtSync is what a cluster held when it was complete first in its epoch.
type AtSync struct {
	Services  int     `json:"services"`
	Slices    int     `json:"slices"`
	Workloads int     `json:"workloads"`
	Endpoints int     `json:"endpoints"`
	Seconds   float64 `json:"seconds"` // that it took
}

// Service is one host in one namespace, of all clusters.
type Service struct {
	Host       string            `json:"host"`
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Provider   string            `json:"provider"`
	Winner     string            `json:"winner"` // whose definition decides
	Resolution string            `json:"resolution"`
	AliasOf    string            `json:"aliasOf,omitempty"` // host that it is another name of
	ShownTo    string            `json:"shownTo,omitempty"` // left out if to everybody
	NodeLocal  bool              `json:"nodeLocal,omitempty"`
	Created    time.Time         `json:"created,omitzero"` // left out if its object does not tell
	Ports      []ServicePort     `json:"ports"`
	Clusters   []ServiceCluster  `json:"clusters"`
	Endpoints  int               `json:"endpoints"`
	Served     int               `json:"served"`
	Accounts   []string          `json:"serviceAccounts,omitempty"`
	Selector   map[string]string `json:"selector,omitempty"`
	Conflicts  []Conflict        `json:"conflicts,omitempty"`
	Revision   uint64            `json:"revision"`           // of its last change
	Definition uint64            `json:"definitionRevision"` // of its last change that was more than endpoints
}

// ServicePort is a port of a service.
type ServicePort struct {
	Name       string `json:"name,omitempty"`
	Port       uint16 `json:"port"`
	Protocol   string `json:"protocol"`
	TargetPort string `json:"targetPort,omitempty"`
}

// ServiceCluster is what one cluster has of a service.
type ServiceCluster struct {
	Cluster   string   `json:"cluster"`
	Defined   bool     `json:"defined"`
	VIPs      []string `json:"vips,omitempty"`
	Endpoints int      `json:"endpoints"`
	Served    int      `json:"served"`
}

// Conflict is a disagreement of two definitions.
type Conflict struct {
	Field  string `json:"field"`
	Winner string `json:"winner"`
	Loser  string `json:"loser"`
	Detail string `json:"detail,omitempty"`
}

// Endpoint is one address of a service in one slice, with the ports on which it
// fares alike.
type Endpoint struct {
	Host      string         `json:"host"`
	Namespace string         `json:"namespace"`
	Cluster   string         `json:"cluster"`
	Provider  string         `json:"provider"`
	Address   string         `json:"address"`
	Ports     []EndpointPort `json:"ports,omitempty"`
	// State is served, held, not ready, terminating, drained, shadowed or unmatched.
	State      string            `json:"state"`
	Reason     string            `json:"reason,omitempty"`
	ShadowedBy *Shadow           `json:"shadowedBy,omitempty"`
	Moving     bool              `json:"moving,omitempty"`
	Slice      string            `json:"slice"`
	Version    uint64            `json:"resourceVersion,omitempty"` // of the slice
	Workload   string            `json:"workload,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Account    string            `json:"serviceAccount,omitempty"`
	Node       string            `json:"node,omitempty"`
	Locality   string            `json:"locality,omitempty"`
	Network    string            `json:"network,omitempty"`
	Weight     uint32            `json:"weight,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// EndpointPort is a port of the service and the number behind it.
type EndpointPort struct {
	Name   string `json:"name,omitempty"`
	Port   uint16 `json:"port"`
	Target uint16 `json:"target"`
}

// Shadow is the endpoint that is served in place of another.
type Shadow struct {
	Cluster  string `json:"cluster"`
	Provider string `json:"provider"`
	Slice    string `json:"slice"`
	Workload string `json:"workload,omitempty"`
}

// Proxy is one connected client.
type Proxy struct {
	ID           string      `json:"id"`
	Cluster      string      `json:"cluster,omitempty"`
	Namespace    string      `json:"namespace,omitempty"`
	Class        string      `json:"class"` // sidecar, router or grpc: what it is given
	IstioVersion string      `json:"istioVersion,omitempty"`
	UserAgent    string      `json:"userAgent,omitempty"`
	Peer         string      `json:"peer"`
	Protocol     string      `json:"protocol"` // delta or sotw
	Connected    time.Time   `json:"connected"`
	State        string      `json:"state"` // the worst of its types
	Types        []ProxyType `json:"types"`
}

// ProxyType is what a client has of one resource type. State is SYNCED, STALE
// (sent, not acknowledged), NOT SENT or ERROR (refused). Quarantined is how many
// resources it refused alone and is not sent again as they are.
type ProxyType struct {
	Type        string    `json:"type"`
	URL         string    `json:"url"`
	Names       int       `json:"names"`
	All         bool      `json:"all"`
	Sent        string    `json:"sent,omitempty"`
	Acked       string    `json:"acked,omitempty"`
	Version     string    `json:"version,omitempty"`
	State       string    `json:"state"`
	Failure     string    `json:"failure,omitempty"`
	Quarantined int       `json:"quarantined,omitempty"`
	Changed     time.Time `json:"changed"`
}
