package model

import (
	"cmp"
	"slices"
	"strings"
)

// Protocol is what a port speaks, as far as a mesh tells protocols apart.
type Protocol uint8

const (
	// Unknown is a port whose protocol is not told; Istio calls it auto.
	Unknown Protocol = iota
	TCP
	UDP
	HTTP
	HTTP2
	GRPC
	GRPCWeb
	HTTPS
	TLS
	Mongo
	MySQL
	Redis
	// SCTP is told apart so that nobody takes such a port for TCP.
	SCTP
)

var protocolNames = [...]string{"auto", "TCP", "UDP", "HTTP", "HTTP2", "GRPC", "GRPC-Web", "HTTPS", "TLS", "Mongo", "MySQL", "Redis", "SCTP"}

func (p Protocol) String() string { return protocolNames[p] }

// IsHTTP reports whether requests on the port can be routed by their headers.
func (p Protocol) IsHTTP() bool {
	return p == HTTP || p == HTTP2 || p == GRPC || p == GRPCWeb
}

// IsHTTP2 reports whether the port expects HTTP/2 from the first byte.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// Port is one port of a service.
type Port struct {
	Name       string
	Number     uint16
	Protocol   Protocol
	TargetPort string // as written: a number, a name, or "" for the same number
}

// Resolution tells how a client finds the endpoints of a service.
type Resolution uint8

const (
	// ClientSideLB gives the client endpoints to balance over.
	ClientSideLB Resolution = iota
	// Passthrough has the client connect to the address it was asked for, as for
	// a headless Service.
	Passthrough
	// Alias is another name of another service, as ExternalName is.
	Alias
)

func (r Resolution) String() string { return [...]string{"ClientSideLB", "Passthrough", "Alias"}[r] }

// Service is the definition of a service by one object of one registry.
type Service struct {
	Key        ServiceKey
	Registry   ShardKey // which registry defines it
	Name       string   // name of the defining object, in Key.Namespace
	Created    int64    // creation of the object, in Unix seconds
	Version    uint64   // resourceVersion of the object; no part of the meaning
	Ports      []Port   // sorted by number, then name
	VIPs       []Addr   // cluster IPs, the primary one first
	External   []Addr   // addresses outside the cluster that lead to it as well
	Resolution Resolution
	AliasOf    string // host that an Alias stands for; "" if it names none
	Selector   Labels // which workloads it selects; empty if none by label
	Visibility Visibility
	NodeLocal  bool // each client is to use endpoints on its own node only
	DualStack  bool // it is offered over both IPv4 and IPv6
	// Accounts are identities that its endpoints may show beside those of their
	// workloads, in the form of Definition.Accounts.
	Accounts []string
}

// Equal reports whether s and o mean the same. Version is left out: an object
// that was written again without a change of meaning changes nothing.
func (s *Service) Equal(o *Service) bool {
	if s == o {
		return true
	}
	return s != nil && o != nil && s.Key == o.Key && s.Registry == o.Registry && s.Name == o.Name && s.Created == o.Created &&
		slices.Equal(s.Ports, o.Ports) && slices.Equal(s.VIPs, o.VIPs) && slices.Equal(s.External, o.External) &&
		s.Resolution == o.Resolution && s.AliasOf == o.AliasOf && s.Selector == o.Selector && s.Visibility == o.Visibility &&
		s.NodeLocal == o.NodeLocal && s.DualStack == o.DualStack && slices.Equal(s.Accounts, o.Accounts)
}

// ClusterVIPs is the addresses of a service in one cluster.
type ClusterVIPs struct {
	Cluster  ClusterID
	VIPs     []Addr
	External []Addr
}

// Conflict is a disagreement between two definitions of one service, and who
// won it.
type Conflict struct {
	Field  string // what they disagree on, such as "port http"
	Winner ShardKey
	Loser  ShardKey
	Detail string // both values, for a person to read
}

// Definition is one service as merged from the definitions of all registries.
type Definition struct {
	Key        ServiceKey
	Winner     *Service      // the definition that decides where they differ
	Sources    []*Service    // every definition, in order of precedence
	Ports      []Port        // union, sorted by number, then name
	VIPs       []ClusterVIPs // per cluster, sorted by cluster
	Accounts   []string      // service accounts of all endpoints as "namespace/account", and whole identities as URIs; sorted
	Conflicts  []Conflict    // sorted by field, then loser
	Resolution Resolution
}

// Equal reports whether d and o mean the same to a client or a person: equal
// definitions cause no push. Version of the sources is left out, as in
// Service.Equal.
func (d *Definition) Equal(o *Definition) bool {
	if d == o {
		return true
	}
	return d != nil && o != nil && d.Key == o.Key && d.Winner.Equal(o.Winner) && d.Resolution == o.Resolution &&
		slices.Equal(d.Ports, o.Ports) && slices.Equal(d.Accounts, o.Accounts) && slices.Equal(d.Conflicts, o.Conflicts) &&
		slices.EqualFunc(d.VIPs, o.VIPs, func(a, b ClusterVIPs) bool {
			return a.Cluster == b.Cluster && slices.Equal(a.VIPs, b.VIPs) && slices.Equal(a.External, b.External)
		}) &&
		slices.EqualFunc(d.Sources, o.Sources, (*Service).Equal)
}

// Visibility tells to whom the service is shown.
func (d *Definition) Visibility() Visibility {
	if d.Winner == nil {
		return Everywhere
	}
	return d.Winner.Visibility
}

// AliasOf returns the host that the service is another name of; "" if it is no
// alias. That host may be an alias itself, of anything.
func (d *Definition) AliasOf() string {
	if d.Winner == nil {
		return ""
	}
	return d.Winner.AliasOf
}

// NodeLocal reports whether clients use endpoints on their own node only.
func (d *Definition) NodeLocal() bool { return d.Winner != nil && d.Winner.NodeLocal }

// DualStack reports whether the service is offered over IPv4 and IPv6 in a
// cluster.
func (d *Definition) DualStack(cluster ClusterID) bool {
	return slices.ContainsFunc(d.Sources, func(s *Service) bool { return s.Registry.Cluster == cluster && s.DualStack })
}

// Port returns the port with that number.
func (d *Definition) Port(number uint16) (Port, bool) {
	for _, p := range d.Ports {
		if p.Number == number {
			return p, true
		}
	}
	return Port{}, false
}

// ComparePorts orders ports by number, then name.
func ComparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name))
}
