package model

import "slices"

// EndpointSlice is what a source reports of one EndpointSlice: addresses and
// references to pods, not yet joined to what is known of those pods.
type EndpointSlice struct {
	Object    NamespacedName
	Service   string // name of the Service it belongs to, in the same namespace
	Version   uint64 // resourceVersion
	Ports     []SlicePort
	Endpoints []SliceEndpoint // sorted by address; an address once
}

// SlicePort is a port of a slice; it holds for each of its endpoints.
type SlicePort struct {
	Name   string
	Number uint16
}

// SliceEndpoint is one address of an EndpointSlice. Pod is "" if the slice
// refers to none; the pod is in the namespace of the slice.
type SliceEndpoint struct {
	Addr       Addr
	Pod        string
	UID        UID // of the pod, if the slice gives it
	Zone       string
	Conditions EndpointFlags // of EndpointReady, EndpointServing, EndpointTerminating
}

// Slice is an EndpointSlice joined to its workloads: the row in which the core
// keeps and publishes endpoints. It is immutable.
type Slice struct {
	Cluster    ClusterID
	Object     NamespacedName
	Version    uint64
	Ports      []SlicePort
	Localities []Locality // what Endpoint.Locality points into
	Accounts   []string   // service accounts of all endpoints, sorted
	Endpoints  []Endpoint // sorted by address; only selected slices repeat one, then by workload
	// OneAddress says that no workload of the slice has more than one address, so
	// that nobody needs to look; false says that it is not known. It is no part of
	// the meaning.
	OneAddress bool
}

// Endpoint is one address of a Slice, 32 bytes.
type Endpoint struct {
	Addr Addr
	// Workload is what the address belongs to. It is nil if the slice refers to
	// no workload. With EndpointMissing it is a placeholder that holds Name, UID
	// and perhaps the state AnotherUID.
	Workload *WorkloadInstance
	Weight   uint32 // 0 means not set, which counts as 1
	Locality uint8  // index into Slice.Localities, used if the workload has none
	Flags    EndpointFlags
}

// EndpointFlags is the state of one endpoint.
type EndpointFlags uint8

const (
	// EndpointReady is, with EndpointServing and EndpointTerminating, a condition
	// of the slice; nil values are resolved as Kubernetes documents.
	EndpointReady EndpointFlags = 1 << iota
	EndpointServing
	EndpointTerminating
	// EndpointMissing says that the workload it refers to is not known (yet), so that
	// neither its identity nor its labels are: it is held back.
	EndpointMissing
	// EndpointAnyUID says that the slice gives no uid: any incarnation of the pod
	// fits.
	EndpointAnyUID
	// EndpointMoving says that the slice dropped it a moment ago while its pod is still
	// ready; it stays until another slice takes it over or the hold ends.
	EndpointMoving
	// EndpointFinished says that the workload ended for good, and its address may be
	// another one's by now, whatever the slice still says.
	EndpointFinished
	// EndpointDrained says that its cluster is being drained, and this part of it gets
	// nothing new.
	EndpointDrained
)

// Served reports whether the endpoint may get new requests. One that its slice
// says is ready may even while it terminates: the slice says so of terminating
// pods only if their Service publishes addresses that are not ready.
func (f EndpointFlags) Served() bool {
	return f&(EndpointReady|EndpointMissing|EndpointFinished|EndpointDrained) == EndpointReady
}

// Equal reports whether s and o mean the same, wherever their workloads are
// stored. Version is left out, as is the order of Localities, and a locality that
// the slice gives and that of the workload overrules.
func (s *Slice) Equal(o *Slice) bool {
	return s == o || s.Cluster == o.Cluster && s.Object == o.Object && slices.Equal(s.Ports, o.Ports) && slices.Equal(s.Accounts, o.Accounts) &&
		slices.EqualFunc(s.Endpoints, o.Endpoints, func(a, b Endpoint) bool {
			return a.Addr == b.Addr && a.Weight == b.Weight && a.Flags == b.Flags && s.Where(&a) == o.Where(&b) &&
				(a.Workload == b.Workload || a.Workload.Equal(b.Workload))
		})
}

// Given returns the locality that the slice gave an endpoint.
func (s *Slice) Given(e *Endpoint) Locality {
	if int(e.Locality) < len(s.Localities) {
		return s.Localities[e.Locality]
	}
	return ""
}

// Where returns the locality of endpoint e of s: that of its workload, else
// the one the slice gave.
func (s *Slice) Where(e *Endpoint) Locality {
	if w := e.Workload; w != nil && w.Placement != nil && w.Placement.Locality != "" {
		return w.Placement.Locality
	}
	return s.Given(e)
}

// Port returns the number of the port that a slice has under a service port's
// name. Kubernetes matches the two by name alone.
func (s *Slice) Port(name string) (number uint16, ok bool) {
	for _, p := range s.Ports {
		if p.Name == name {
			return p.Number, true
		}
	}
	return 0, false
}
