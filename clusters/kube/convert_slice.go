package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary/model"
)

// mcsServiceLabel marks slices that the multi-cluster services API made from
// those of other clusters. Their endpoints come from there already.
const mcsServiceLabel = "multicluster.kubernetes.io/service-name"

// slice converts an EndpointSlice; nil if it belongs to no Service of this
// cluster, or cannot be used, as one that holds names in place of addresses.
func (c converter) slice(o *discoveryv1.EndpointSlice) (s *model.EndpointSlice, dropped int) {
	service := o.Labels[discoveryv1.LabelServiceName]
	if _, mcs := o.Labels[mcsServiceLabel]; mcs || service == "" {
		return nil, 0
	}
	if o.AddressType == discoveryv1.AddressTypeFQDN || !usableName(o.Name) || !usableName(o.Namespace) || !usableName(service) {
		return nil, 1
	}
	s = &model.EndpointSlice{
		Object:  model.NamespacedName{Namespace: o.Namespace, Name: o.Name},
		Service: service,
		Version: versionNumber(o.ResourceVersion),
	}
	s.Ports, dropped = slicePorts(o.Ports)
	n := min(len(o.Endpoints), maxEndpoints)
	if dropped += len(o.Endpoints) - n; n > 0 {
		s.Endpoints = make([]model.SliceEndpoint, 0, n)
	}
	for i := range n {
		if e, ok := sliceEndpoint(&o.Endpoints[i], o.Namespace); ok && ofType(e.Addr, o.AddressType) {
			s.Endpoints = append(s.Endpoints, e)
			if z := o.Endpoints[i].Zone; z != nil && *z != e.Zone {
				dropped++
			}
		} else {
			dropped++
		}
	}
	slices.SortFunc(s.Endpoints, compareEndpoints)
	s.Endpoints = slices.CompactFunc(s.Endpoints, func(a, b model.SliceEndpoint) bool { return a.Addr == b.Addr })
	return s, dropped
}

// slicePorts converts the ports of a slice. Rows tell them apart by name: of
// several of one name those that stand for TCP count, since clients balance over
// that, and of these the lowest.
func slicePorts(list []discoveryv1.EndpointPort) (ports []model.SlicePort, dropped int) {
	type entry struct {
		model.SlicePort
		tcp bool
	}
	named := map[string]entry{}
	for i := range list {
		// A port without a number means "any port" in some slices that are made
		// by hand. No client can be told that.
		p := &list[i]
		var e entry
		if p.Name != nil {
			e.Name = *p.Name
		}
		number, ok := uint16(0), p.Port != nil && usableText(e.Name)
		if ok {
			number, ok = portNumber(*p.Port)
		}
		was, twice := named[e.Name]
		if !ok || !twice && len(named) == maxPorts {
			dropped++
			continue
		}
		e.Number, e.tcp = number, p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP
		if !twice || e.tcp && !was.tcp || e.tcp == was.tcp && e.Number < was.Number {
			named[e.Name] = e
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		ports = append(ports, named[name].SlicePort)
	}
	return ports, dropped
}

// ofType reports whether an address is of the type that its slice tells.
func ofType(a model.Addr, t discoveryv1.AddressType) bool {
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return a.Is4()
	case discoveryv1.AddressTypeIPv6:
		return !a.Is4()
	}
	return t == ""
}

// sliceEndpoint converts one endpoint of a slice. Of its addresses only the
// first counts, as the API documents: the others were never meant to be used.
func sliceEndpoint(o *discoveryv1.Endpoint, namespace string) (e model.SliceEndpoint, ok bool) {
	if len(o.Addresses) == 0 {
		return e, false
	}
	if e.Addr, ok = usableAddr(o.Addresses[0]); !ok {
		return e, false
	}
	if ref := o.TargetRef; ref != nil && ref.Kind == "Pod" && ref.Name != "" {
		// A slice cannot speak for pods of another namespace. Without the pod
		// nothing is known of who answers at the address, so it is not used.
		if ref.Namespace != "" && ref.Namespace != namespace {
			return e, false
		}
		if !usableName(ref.Name) {
			return e, false
		}
		e.Pod, e.UID = ref.Name, model.ParseUID(string(ref.UID))
	}
	if o.Zone != nil && usableText(*o.Zone) {
		e.Zone = *o.Zone
	}
	e.Conditions = conditionsOf(&o.Conditions)
	return e, true
}

// conditionsOf resolves conditions that are not given as the API documents: an
// endpoint is ready unless told otherwise, serving as it is ready, and not
// terminating.
func conditionsOf(o *discoveryv1.EndpointConditions) (f model.EndpointFlags) {
	ready := o.Ready == nil || *o.Ready
	if ready {
		f |= model.EndpointReady
	}
	if o.Serving == nil && ready || o.Serving != nil && *o.Serving {
		f |= model.EndpointServing
	}
	if o.Terminating != nil && *o.Terminating {
		f |= model.EndpointTerminating
	}
	return f
}

// compareEndpoints orders by address; of equal addresses the one to keep comes
// first: ready before not, one with a pod before one without, then by name.
func compareEndpoints(a, b model.SliceEndpoint) int {
	rank := func(e *model.SliceEndpoint) int {
		n := 0
		if e.Conditions&model.EndpointReady == 0 {
			n += 4
		}
		if e.Conditions&model.EndpointTerminating != 0 {
			n += 2
		}
		if e.Pod == "" {
			n++
		}
		return n
	}
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(rank(&a), rank(&b)), strings.Compare(a.Pod, b.Pod),
		slices.Compare(a.UID[:], b.UID[:]), cmp.Compare(a.Conditions, b.Conditions), strings.Compare(a.Zone, b.Zone))
}
