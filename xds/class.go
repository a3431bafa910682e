package xds

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"tributary/model"
)

// Class is what kind of client asks. Clients of one class are given the same
// resources, as far as they may see them; a refusal by one counts for its class.
type Class uint8

// The classes. What they differ in: a Sidecar runs beside a workload and connects
// to the address that the workload asked for where there is no cluster IP; a
// Router stands alone, such as a gateway, and must know every address; a gRPC
// client has no listeners of its own, speaks the state of the world only, and
// refuses much that Envoy accepts (package xdsresource of grpc-go).
const (
	Sidecar Class = iota
	Router
	GRPC

	classes = iota
)

func (c Class) String() string { return [...]string{"sidecar", "router", "grpc"}[c] }

// classOf tells a client's class by what it says of itself: Istio's metadata
// GENERATOR or gRPC's user agent, then the type in the node's id. A client that
// is none of these is an Envoy that balances by itself, as a sidecar does.
func classOf(n *corev3.Node) Class {
	switch {
	case n.GetMetadata().GetFields()["GENERATOR"].GetStringValue() == "grpc", strings.HasPrefix(n.GetUserAgentName(), "gRPC"):
		return GRPC
	case strings.HasPrefix(n.GetId(), "router~"):
		return Router
	}
	return Sidecar
}

// reach is how clients of a class get to a port of a service.
type reach uint8

const (
	unreached reach = iota // they have no cluster for it
	balanced               // they are given its endpoints and balance over them
	direct                 // they connect to the address that they were asked for
)

// reaches tells how clients of this class get to a port of d. A headless service
// has no address of its own: a sidecar sees to which of its endpoints the
// workload connects and goes there; the others are not asked for an address, and
// balance (I:1C). An alias is reached by what it stands
// for (alias.go).
func (c Class) reaches(d *model.Definition, p model.Port) reach {
	switch {
	case p.Protocol == model.UDP || p.Protocol == model.SCTP:
		return unreached // HTTP and TCP are what is balanced
	case d.Resolution == model.ClientSideLB, d.Resolution == model.Passthrough && c != Sidecar:
		return balanced
	case d.Resolution == model.Passthrough:
		return direct
	}
	return unreached
}

// hasCluster reports whether clients of this class are given a cluster for a
// port of d.
func (c Class) hasCluster(d *model.Definition, p model.Port) bool {
	return c.reaches(d, p) != unreached
}

// clusterPort returns the port of d that the cluster of a port number stands
// for: a number may be there twice, as 53 is for UDP and for TCP.
func (c Class) clusterPort(d *model.Definition, number uint16) (model.Port, bool) {
	for _, p := range d.Ports {
		if p.Number == number && c.hasCluster(d, p) {
			return p, true
		}
	}
	return model.Port{}, false
}
