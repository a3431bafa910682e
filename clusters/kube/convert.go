package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
	case *corev1.Node:
		r, n := convertNode(o)
		if r != nil {
			b.Nodes = append(b.Nodes, r)
		}
		return r != nil, n
	case *corev1.Namespace:
		r, n := convertNamespace(o)
		if r != nil {
			b.Namespaces = append(b.Namespaces, r)
		}
		return r != nil, n
	}
	return false, 0
}

// service converts a Service; nil if its name or selector cannot be used.
func (c converter) service(o *corev1.Service) (s *model.Service, dropped int) {
	selector, ok := packLabels(o.Spec.Selector)
	if !ok || !usableName(o.Name) || !usableName(o.Namespace) {
		return nil, 1
	}
	s = &model.Service{
		Key:      model.ServiceKey{Host: o.Name + "." + o.Namespace + ".svc." + c.suffix, Namespace: o.Namespace},
		Registry: c.source,
		Name:     o.Name,
		Created:  unixSeconds(o.CreationTimestamp),
		Version:  versionNumber(o.ResourceVersion),
		Selector: selector,
	}
	s.NodeLocal = o.Spec.InternalTrafficPolicy != nil && *o.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	s.DualStack = slices.Contains(o.Spec.IPFamilies, corev1.IPv4Protocol) && slices.Contains(o.Spec.IPFamilies, corev1.IPv6Protocol)
	if s.Visibility, ok = visibilityOf(o.Annotations[exportToAnnotation], o.Namespace); !ok {
		dropped++
	}
	var n int
	s.Accounts, n = accountsNamed(o.Annotations, o.Namespace)
	dropped += n
	ips := o.Spec.ClusterIPs
	if len(ips) == 0 && o.Spec.ClusterIP != "" {
		ips = []string{o.Spec.ClusterIP}
	}
	external := o.Spec.ExternalIPs
	switch {
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		// Its addresses are leftovers of another type; clients resolve the name.
		s.Resolution, ips, external, s.NodeLocal, s.DualStack = model.Alias, nil, nil, false, false
		if s.AliasOf, ok = externalHost(o.Spec.ExternalName); !ok {
			dropped++
		}
	case slices.Contains(ips, corev1.ClusterIPNone):
		s.Resolution, ips = model.Passthrough, nil
	}
	s.VIPs, n = usableAddrs(ips)
	dropped += n
	s.External, n = usableAddrs(external)
	dropped += n
	if four := slices.ContainsFunc(s.VIPs, model.Addr.Is4); four && slices.ContainsFunc(s.VIPs, func(a model.Addr) bool { return !a.Is4() }) {
		s.DualStack = true
	}
	s.Ports, n = servicePorts(o.Spec.Ports)
	return s, dropped + n
}

// servicePorts converts the ports of a Service. Rows tell ports apart by name,
// and clients by number and transport: of two that are equal in that the first
// counts.
func servicePorts(list []corev1.ServicePort) (ports []model.Port, dropped int) {
	type at struct {
		number    uint16
		transport corev1.Protocol
	}
	names, numbers := map[string]bool{}, map[at]bool{}
	for i := range list {
		p, ok := servicePort(&list[i])
		number := at{p.Number, cmp.Or(list[i].Protocol, corev1.ProtocolTCP)}
		if !ok || names[p.Name] || numbers[number] || len(ports) == maxPorts {
			dropped++
			continue
		}
		names[p.Name], numbers[number] = true, true
		ports = append(ports, p)
	}
	slices.SortFunc(ports, model.ComparePorts)
	return ports, dropped
}

func servicePort(o *corev1.ServicePort) (model.Port, bool) {
	number, ok := portNumber(o.Port)
	if !ok || !usableText(o.Name) || !usableText(o.TargetPort.StrVal) {
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

// Annotations that name identities which the endpoints of a Service may show
// beside those of their pods, separated by commas, as in Istio: accounts of the
// Service's own namespace, and whole identities.
const (
	accountsAnnotation   = "alpha.istio.io/kubernetes-serviceaccounts"
	identitiesAnnotation = "alpha.istio.io/canonical-serviceaccounts"
)

// maxAccounts bounds the identities that a Service names: each stands in its
// clusters.
const maxAccounts = 256

// accountsNamed reads those annotations. It leaves out, and counts, what is no
// account or URI, and what is too many.
func accountsNamed(annotations map[string]string, namespace string) (accounts []string, dropped int) {
	for _, a := range []struct{ key, prefix string }{{accountsAnnotation, namespace + "/"}, {identitiesAnnotation, ""}} {
		for one := range strings.SplitSeq(annotations[a.key], ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			usable := usableText(one) && strings.Contains(one, "://")
			if a.prefix != "" {
				usable = usableName(one) && !strings.Contains(one, "/")
			}
			i, found := slices.BinarySearch(accounts, a.prefix+one)
			switch {
			case !usable || !found && len(accounts) == maxAccounts:
				dropped++
			case !found:
				accounts = slices.Insert(accounts, i, a.prefix+one)
			}
		}
	}
	return accounts, dropped
}

// exportToAnnotation says to which namespaces a Service is shown.
const exportToAnnotation = "networking.istio.io/exportTo"

// visibilityOf reads that annotation: names of namespaces, '.' for the Service's
// own, '~' for none at all and '*' for all, which wins over the rest.
func visibilityOf(annotation, namespace string) (v model.Visibility, ok bool) {
	if len(annotation) > maxText || !utf8.ValidString(annotation) {
		return model.Nowhere, false
	}
	hidden := false
	var list []string
	for one := range strings.SplitSeq(annotation, ",") {
		switch one = strings.TrimSpace(one); one {
		case "*":
			return model.Everywhere, true
		case "~":
			hidden = true
		case ".":
			list = append(list, namespace)
		case "":
		default:
			list = append(list, one)
		}
	}
	if hidden {
		return model.Nowhere, true
	}
	return model.VisibleIn(list...), true
}

// externalHost reads the name that an ExternalName Service stands for.
func externalHost(name string) (host string, ok bool) {
	host = strings.ToLower(strings.TrimSuffix(name, "."))
	if !usableName(host) {
		return "", name == ""
	}
	return host, true
}

// usableAddrs parses addresses and leaves out what cannot be used, what is too
// many, and repetitions.
func usableAddrs(list []string) (addrs []model.Addr, dropped int) {
	for i, ip := range list {
		if i == maxAddrs {
			return addrs, dropped + len(list) - i
		}
		if a, ok := usableAddr(ip); !ok {
			dropped++
		} else if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs, dropped
}

// Bounds of texts. API servers keep to narrower ones; a file, or one who only
// plays an API server, need not.
const (
	maxName  = 253
	maxText  = 256 << 10 // all labels of an object, or one annotation
	maxPorts = 4096      // of a Service, a slice or a pod
	maxAddrs = 1024      // of a Service or a pod

	// maxEndpoints is ten times what an API server accepts in a slice. The cost of a
	// change to a slice may grow with the square of it.
	maxEndpoints = 10_000
)

// usableName reports whether s can be the name of an object or namespace: what
// else is in it would come up in the names of clusters, domains and logs.
func usableName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// usableText reports whether s can stand in a response: one that is no UTF-8
// makes a client refuse all of it.
func usableText(s string) bool { return len(s) <= maxName && utf8.ValidString(s) }

// packLabels packs labels; ok is false for what is too large to be labels of
// one object, or cannot be read as text.
func packLabels(m map[string]string) (l model.Labels, ok bool) {
	size := 0
	for k, v := range m {
		if size += len(k) + len(v); size > maxText || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return l, false
		}
	}
	return model.NewLabels(m), true
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
