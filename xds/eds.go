package xds

import (
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"tributary/model"
	"tributary/shards"
)

// Fields of envoy.config.endpoint.v3. Assignments are encoded by hand: they are
// what changes all day, and building protobuf objects for them costs six times
// the encoding.
const (
	fieldAssignmentCluster   = 1
	fieldAssignmentEndpoints = 2

	fieldGroupLocality  = 1
	fieldGroupEndpoints = 2
	fieldGroupWeight    = 3

	fieldLocalityRegion  = 1
	fieldLocalityZone    = 2
	fieldLocalitySubZone = 3

	fieldLbEndpoint = 1
	fieldLbMetadata = 3
	fieldLbWeight   = 4

	fieldEndpointAddress    = 1
	fieldEndpointAdditional = 4
	fieldAdditionalAddress  = 1
	fieldAddressSocket      = 1
	fieldSocketAddress      = 2
	fieldSocketPort         = 3

	fieldMetadataFilter = 1
	fieldMapKey         = 1
	fieldMapValue       = 2
	fieldStructFields   = 1
	fieldValueString    = 3
	fieldWrapperValue   = 1
)

// group is the endpoints of one locality while an assignment is encoded.
type group struct {
	endpoints []byte
	weight    uint64
}

// encoder encodes assignments; its buffers are used again.
type encoder struct {
	groups  map[model.Locality]*group
	free    []*group
	address []byte
	socket  []byte
	point   []byte
	body    []byte
	out     []byte

	leaveOut func(shards.Candidate) bool // nil: none
	tls      bool                        // the client can speak mutual TLS
	unique   bool                        // the client refuses an address that is there twice, whatever the network
	seen     map[place]struct{}          // if unique
	more     []byte
}

// place is where a client connects to.
type place struct {
	addr model.Addr
	port uint16
}

// repeats reports whether an endpoint's addresses, or one of them, are in the
// assignment already, and notes them.
func (e *encoder) repeats(c shards.Candidate) bool {
	at := []place{{c.Endpoint.Addr, c.Port}}
	for _, a := range c.Additional() {
		at = append(at, place{a, c.Port})
	}
	for _, p := range at {
		if _, is := e.seen[p]; is {
			return true
		}
	}
	for _, p := range at {
		e.seen[p] = struct{}{}
	}
	return false
}

// assignment encodes the ClusterLoadAssignment of a port of s: what is served,
// grouped by locality in ascending order, each group weighted by its endpoints.
// What it returns is good until the next call.
func (e *encoder) assignment(name string, s *shards.Service, port model.Port) []byte {
	// Weights of a cluster must not add up to more than 32 bits, or clients refuse
	// it. Where they would, all are scaled down.
	for scale := 0; ; scale++ {
		if total := e.collect(s, port, scale); total <= math.MaxUint32 {
			break
		}
	}
	e.out = appendText(e.out[:0], fieldAssignmentCluster, name)
	for _, l := range slices.Sorted(maps.Keys(e.groups)) {
		g := e.groups[l]
		e.body = appendLocality(e.body[:0], l)
		e.body = append(e.body, g.endpoints...)
		e.body = appendUint32Value(e.body, fieldGroupWeight, uint32(g.weight))
		e.out = append(appendHead(e.out, fieldAssignmentEndpoints, len(e.body)), e.body...)
	}
	return e.out
}

// collect encodes the endpoints of each locality, weights divided by 2 to the
// power of scale, and returns the sum of the weights.
func (e *encoder) collect(s *shards.Service, port model.Port, scale int) (total uint64) {
	for _, g := range e.groups {
		e.free = append(e.free, g)
	}
	if e.groups == nil {
		e.groups = map[model.Locality]*group{}
	}
	clear(e.groups)
	if e.unique {
		e.seen = map[place]struct{}{}
	}
	var last *group
	var where model.Locality
	for c := range s.Candidates(port) {
		if !c.Served() || c.Endpoint.Addr.IsZero() || c.Port == 0 {
			continue // the last two cannot be connected to, and Envoy would refuse them all
		}
		if e.leaveOut != nil && e.leaveOut(c) || e.unique && e.repeats(c) {
			continue
		}
		if l := c.Slice.Where(c.Endpoint); last == nil || l != where {
			where = l
			if last = e.groups[l]; last == nil {
				last = e.newGroup()
				e.groups[l] = last
			}
		}
		weight := max(1, c.Endpoint.Weight>>scale)
		last.weight += uint64(weight)
		total += uint64(weight)
		last.endpoints = e.appendEndpoint(last.endpoints, c, weight)
	}
	return total
}

func (e *encoder) newGroup() *group {
	n := len(e.free)
	if n == 0 {
		return &group{}
	}
	g := e.free[n-1]
	e.free = e.free[:n-1]
	g.weight, g.endpoints = 0, g.endpoints[:0]
	return g
}

// appendEndpoint appends one LbEndpoint as a field of its group.
func (e *encoder) appendEndpoint(b []byte, c shards.Candidate, weight uint32) []byte {
	e.more = e.more[:0]
	for _, a := range c.Additional() {
		e.encodeSocket(a, c.Port)
		socket := sizeBytes(fieldAddressSocket, len(e.socket))
		e.more = appendHead(e.more, fieldEndpointAdditional, sizeBytes(fieldAdditionalAddress, socket))
		e.more = appendHead(e.more, fieldAdditionalAddress, socket)
		e.more = append(appendHead(e.more, fieldAddressSocket, len(e.socket)), e.socket...)
	}
	e.encodeSocket(c.Endpoint.Addr, c.Port)
	socket := sizeBytes(fieldAddressSocket, len(e.socket))
	address := sizeBytes(fieldEndpointAddress, socket)
	e.point = appendHead(e.point[:0], fieldLbEndpoint, address+len(e.more))
	e.point = appendHead(e.point, fieldEndpointAddress, socket)
	e.point = appendHead(e.point, fieldAddressSocket, len(e.socket))
	e.point = append(append(e.point, e.socket...), e.more...)
	if w := c.Endpoint.Workload; w != nil && w.Identity != nil {
		e.point = e.appendMetadata(e.point, w, e.tls && speaksTLS(w))
	}
	if weight != 1 {
		e.point = appendUint32Value(e.point, fieldLbWeight, weight)
	}
	return append(appendHead(b, fieldGroupEndpoints, len(e.point)), e.point...)
}

// encodeSocket encodes a SocketAddress.
func (e *encoder) encodeSocket(a model.Addr, port uint16) {
	e.address = a.AppendTo(e.address[:0])
	e.socket = append(appendHead(e.socket[:0], fieldSocketAddress, len(e.address)), e.address...)
	e.socket = protowire.AppendVarint(protowire.AppendTag(e.socket, fieldSocketPort, protowire.VarintType), uint64(port))
}

// appendMetadata appends the filter metadata that Istio's telemetry reads:
// istio.workload = "name;namespace;canonical name;canonical revision;cluster".
// With tls it says as well that the workload accepts mutual TLS.
func (e *encoder) appendMetadata(b []byte, w *model.WorkloadInstance, tls bool) []byte {
	const filter, field = "istio", "workload"
	name, revision := canonical(w)
	text := len(w.Name) + len(w.Identity.Namespace) + len(name) + len(revision) + len(w.Identity.Cluster) + 4

	value := sizeBytes(fieldValueString, text)
	entry := sizeBytes(fieldMapKey, len(field)) + sizeBytes(fieldMapValue, value)
	fields := sizeBytes(fieldStructFields, entry)
	filters := sizeBytes(fieldMapKey, len(filter)) + sizeBytes(fieldMapValue, fields)
	size := sizeBytes(fieldMetadataFilter, filters)
	if tls {
		size += len(tlsMetadata)
	}
	b = appendHead(b, fieldLbMetadata, size)
	if tls {
		b = append(b, tlsMetadata...)
	}
	b = appendHead(b, fieldMetadataFilter, filters)
	b = appendText(b, fieldMapKey, filter)
	b = appendHead(b, fieldMapValue, fields)
	b = appendHead(b, fieldStructFields, entry)
	b = appendText(b, fieldMapKey, field)
	b = appendHead(b, fieldMapValue, value)
	b = appendHead(b, fieldValueString, text)
	b = append(b, w.Name...)
	for _, s := range [...]string{w.Identity.Namespace, name, revision, string(w.Identity.Cluster)} {
		b = append(append(b, ';'), s...)
	}
	return b
}

// canonical returns the canonical name and revision of a workload: of three
// labels each, the first that is set, else the name of the workload and "latest".
func canonical(w *model.WorkloadInstance) (name, revision string) {
	name, revision = w.Name, "latest"
	nameRank, revisionRank := 3, 3 // of the label that was found; lower wins
	take := func(into *string, best *int, value string, rank int) {
		if rank < *best {
			*into, *best = value, rank
		}
	}
	for k, v := range w.Labels.All() {
		switch k {
		case "service.istio.io/canonical-name":
			take(&name, &nameRank, v, 0)
		case "app.kubernetes.io/name":
			take(&name, &nameRank, v, 1)
		case "app":
			take(&name, &nameRank, v, 2)
		case "service.istio.io/canonical-revision":
			take(&revision, &revisionRank, v, 0)
		case "app.kubernetes.io/version":
			take(&revision, &revisionRank, v, 1)
		case "version":
			take(&revision, &revisionRank, v, 2)
		}
	}
	return name, revision
}

// appendLocality appends a group's locality. It is always there, even if it is
// empty: grpc-go refuses a group without one (L:B3).
func appendLocality(b []byte, l model.Locality) []byte {
	region, zone, subzone := l.Split()
	size := 0
	for i, s := range [...]string{region, zone, subzone} {
		if s != "" {
			size += sizeBytes(protowire.Number(i+1), len(s))
		}
	}
	b = appendHead(b, fieldGroupLocality, size)
	for i, s := range [...]string{fieldLocalityRegion - 1: region, fieldLocalityZone - 1: zone, fieldLocalitySubZone - 1: subzone} {
		if s != "" {
			b = appendText(b, protowire.Number(i+1), s)
		}
	}
	return b
}

func appendUint32Value(b []byte, field protowire.Number, v uint32) []byte {
	b = appendHead(b, field, protowire.SizeTag(fieldWrapperValue)+protowire.SizeVarint(uint64(v)))
	return protowire.AppendVarint(protowire.AppendTag(b, fieldWrapperValue, protowire.VarintType), uint64(v))
}

// emptyAssignment answers a name that has no endpoints or that nobody knows: an
// assignment without endpoints ends the client's waiting and empties the
// cluster, which a removal would not (L:B1 D, E).
func emptyAssignment(name string) *Resource {
	r := newResource(EndpointType, strings.Clone(name), appendText(nil, fieldAssignmentCluster, name))
	r.nobody = true
	return r
}
