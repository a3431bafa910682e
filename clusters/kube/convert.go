package kube

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/model"
)

// DefaultDomainSuffix ends the host of every Service unless set otherwise.
const DefaultDomainSuffix = "cluster.local"

// converter turns API objects into rows. It keeps nothing of an object but
// strings, and takes any object at all: what cannot be used is left out and
// counted, never a reason to fail.
type converter struct {
	source model.ShardKey
	suffix string // of hosts, without a leading dot
}

func newConverter(source model.ShardKey, suffix string) converter {
	suffix = strings.Trim(suffix, ".")
	if suffix == "" {
		suffix = DefaultDomainSuffix
	}
	return converter{source, suffix}
}

// add appends the row of an object to b. ok is false if the object is of no
// kind that has rows, or is not one that makes a row. dropped counts the parts
// that could not be used.
func (c converter) add(b *model.Batch, object any) (ok bool, dropped int) {
	switch o := object.(type) {
	case *corev1.Service:
		s, n := c.service(o)
		if s != nil {
			b.Services = append(b.Services, s)
		}
		return s != nil, n
	case *discoveryv1.EndpointSlice:
		s, n := c.slice(o)
		if s != nil {
			b.Slices = append(b.Slices, s)
		}
		return s != nil, n
	case *corev1.Pod:
		w, n := c.pod(o)
		if w != nil {
			b.Workloads = append(b.Workloads, w)
		}
		return w != nil, n
	}
	return false, 0
}

// service converts a Service; nil if it has no name.
func (c converter) service(o *corev1.Service) (s *model.Service, dropped int) {
	if o.Name == "" || o.Namespace == "" {
		return nil, 1
	}
	s = &model.Service{
		Key:      model.ServiceKey{Host: o.Name + "." + o.Namespace + ".svc." + c.suffix, Namespace: o.Namespace},
		Registry: c.source,
		Name:     o.Name,
		Created:  unixSeconds(o.CreationTimestamp),
		Version:  versionNumber(o.ResourceVersion),
		Selector: model.NewLabels(o.Spec.Selector),
	}
	ips := o.Spec.ClusterIPs
	if len(ips) == 0 && o.Spec.ClusterIP != "" {
		ips = []string{o.Spec.ClusterIP}
	}
	switch {
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		// Its cluster IPs are leftovers of another type; clients resolve the name.
		s.Resolution, ips = model.Alias, nil
	case slices.Contains(ips, corev1.ClusterIPNone):
		s.Resolution, ips = model.Passthrough, nil
	}
	for _, ip := range ips {
		if a, ok := usableAddr(ip); !ok {
			dropped++
		} else if !slices.Contains(s.VIPs, a) {
			s.VIPs = append(s.VIPs, a)
		}
	}
	for i := range o.Spec.Ports {
		if p, ok := servicePort(&o.Spec.Ports[i]); ok {
			s.Ports = append(s.Ports, p)
		} else {
			dropped++
		}
	}
	slices.SortStableFunc(s.Ports, model.ComparePorts)
	s.Ports = slices.CompactFunc(s.Ports, func(a, b model.Port) bool { return model.ComparePorts(a, b) == 0 })
	return s, dropped
}

func servicePort(o *corev1.ServicePort) (model.Port, bool) {
	number, ok := portNumber(o.Port)
	if !ok {
		return model.Port{}, false
	}
	p := model.Port{Name: o.Name, Number: number, Protocol: protocolOf(o.Port, o.Name, o.Protocol, o.AppProtocol)}
	// The API server writes the port's own number where none was given: both
	// mean the same, and must be equal.
	if target := o.TargetPort.String(); target != "0" && target != strconv.Itoa(int(number)) {
		p.TargetPort = target
	}
	return p, true
}

// usableAddr parses an address that traffic can be sent to.
func usableAddr(s string) (a model.Addr, ok bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return a, false
	}
	if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() {
		return a, false
	}
	return model.Addr(ip.As16()), true
}

// versionNumber returns a resourceVersion as a number, 0 if it is none.
func versionNumber(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func unixSeconds(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
