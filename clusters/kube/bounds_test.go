package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary/model"
	"tributary/test/fakeapi"
)

// TestImpossibleValues: what no API server lets through may stand in a file, or
// come from one who only plays an API server. It makes no row, or a row without
// it, and is counted; what stands beside it is as it was.
func TestImpossibleValues(t *testing.T) {
	many := func(n, size int) map[string]string {
		m := make(map[string]string, n)
		for i := range n {
			m[fmt.Sprint("key", i)] = strings.Repeat("v", size)
		}
		return m
	}
	named := metav1.ObjectMeta{Name: "a", Namespace: "n"}
	labelled := func(labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "a", Namespace: "n", Labels: labels}
	}
	called := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace}
	}
	local := corev1.ServiceInternalTrafficPolicy("Sideways")
	slice := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: labelled(map[string]string{discoveryv1.LabelServiceName: "s"}), AddressType: discoveryv1.AddressTypeIPv4}
		change(s)
		return s
	}
	endpoints := func(e ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return slice(func(s *discoveryv1.EndpointSlice) { s.Endpoints = e })
	}
	ref := func(name, namespace string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name, Namespace: namespace}}
	}
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}
	}
	million := many(1_000_000, 1)
	const bad = "a\xff"
	long := strings.Repeat("x", 300)
	for what, c := range map[string]struct {
		object  any
		row     bool
		dropped int
	}{
		"a pod with a million labels":                {&corev1.Pod{ObjectMeta: labelled(million)}, false, 1},
		"a pod with one huge label":                  {&corev1.Pod{ObjectMeta: labelled(many(1, 1<<20))}, false, 1},
		"a pod with as many labels as there can be":  {&corev1.Pod{ObjectMeta: labelled(many(1000, 200))}, true, 0},
		"a pod with a label that is no text":         {&corev1.Pod{ObjectMeta: labelled(map[string]string{"a": bad})}, false, 1},
		"a pod with a key that is no text":           {&corev1.Pod{ObjectMeta: labelled(map[string]string{bad: "a"})}, false, 1},
		"a pod without a name":                       {&corev1.Pod{ObjectMeta: called("", "n")}, false, 1},
		"a pod without a namespace":                  {&corev1.Pod{ObjectMeta: called("a", "")}, false, 1},
		"a pod with a long name":                     {&corev1.Pod{ObjectMeta: called(long, "n")}, false, 1},
		"a pod with a name of two lines":             {&corev1.Pod{ObjectMeta: called("a\nb", "n")}, false, 1},
		"a pod with a name like a path":              {&corev1.Pod{ObjectMeta: called("../a", "n")}, false, 1},
		"a pod with an account that is none":         {&corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{ServiceAccountName: "a/b"}}, false, 1},
		"a pod on a node that is none":               {&corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{NodeName: "a b"}}, true, 1},
		"a pod with a locality without an end":       {&corev1.Pod{ObjectMeta: labelled(map[string]string{localityLabel: long})}, true, 1},
		"a pod with addresses that are none":         {&corev1.Pod{ObjectMeta: named, Status: corev1.PodStatus{PodIP: "x", PodIPs: []corev1.PodIP{{IP: "0.0.0.0"}, {IP: "224.0.0.1"}, {}}}}, true, 3},
		"a pod with ports that are none":             {&corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "a", ContainerPort: -1}, {Name: "b", ContainerPort: 1 << 20}}}}}}, true, 2},
		"a Service with a million labels to select":  {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Selector: million}}, false, 1},
		"a Service with a million labels of its own": {&corev1.Service{ObjectMeta: labelled(million)}, true, 0}, // nobody reads them
		"a Service with a name that is two":          {&corev1.Service{ObjectMeta: called("a|b", "n")}, false, 1},
		"a Service with a namespace that is two":     {&corev1.Service{ObjectMeta: called("a", "n,m")}, false, 1},
		"a Service with ports that are none":         {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 0}, {Port: -80}, {Port: 65536}}}}, true, 3},
		"a Service with a port whose name is no text": {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: bad, Port: 1}, {Name: long, Port: 2},
			{Name: "a", Port: 3, TargetPort: intstr.FromString(bad)}, {Name: "b", Port: 4, TargetPort: intstr.FromString(long)}}}}, true, 4},
		"a Service with ten thousand ports":           {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: servicePortsTo(10_000)}}, true, 10_000 - maxPorts},
		"a Service with ten thousand names of a port": {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: slices.Repeat([]corev1.ServicePort{{Name: "a", Port: 1}}, 10_000)}}, true, 9_999},
		"a Service with a hundred thousand addresses": {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{ExternalIPs: addresses(100_000)}}, true, 100_000 - maxAddrs},
		"a Service that selects by ten thousand keys": {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Selector: many(10_000, 1)}}, true, 0},
		"an annotation that is no text":               {&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Annotations: map[string]string{exportToAnnotation: bad}}}, true, 1},
		"a slice with a hundred thousand endpoints":   {endpoints(endpointsTo(100_000)...), true, 100_000 - maxEndpoints},
		"a slice with one address a thousand times":   {endpoints(slices.Repeat(endpointsTo(1), 1000)...), true, 0},
		"a slice with ten thousand ports":             {slice(func(s *discoveryv1.EndpointSlice) { s.Ports = slicePortsTo(10_000) }), true, 10_000 - maxPorts},
		"a slice with ports that are none": {slice(func(s *discoveryv1.EndpointSlice) {
			s.Ports = []discoveryv1.EndpointPort{{Port: ptr[int32](0)}, {Port: ptr[int32](-1)}, {Port: ptr[int32](70000)}, {}, {Name: ptr(bad), Port: ptr[int32](1)}}
		}), true, 5},
		"a slice with addresses that are none": {endpoints(at("224.0.0.1"), at("0.0.0.0"), at("fe80::1%eth0"), at("10.0.0.1:80"), at("010.0.0.1"), at("example.com"), at("")), true, 7},
		"a slice with a million labels":        {&discoveryv1.EndpointSlice{ObjectMeta: labelled(million)}, false, 0}, // it names no Service
		"a pod with a hundred thousand addresses": {&corev1.Pod{ObjectMeta: named, Status: corev1.PodStatus{PodIPs: func() (list []corev1.PodIP) {
			for _, a := range addresses(100_000) {
				list = append(list, corev1.PodIP{IP: a})
			}
			return list
		}()}}, true, 100_000 - maxAddrs},
		"a pod with ten thousand ports":             {&corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: containerPortsTo(10_000)}}}}, true, 10_000 - maxPorts},
		"a pod with a port whose name is no text":   {&corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: bad, ContainerPort: 1}, {Name: long, ContainerPort: 1}}}}}}, true, 2},
		"a pod of the far future with any version":  {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", ResourceVersion: "-1", CreationTimestamp: metav1.Unix(1<<40, 0), DeletionTimestamp: ptr(metav1.Unix(1<<40, 0)), OwnerReferences: []metav1.OwnerReference{{Kind: "Nothing", Name: "nowhere"}}}}, true, 0},
		"a Service with addresses that are none":    {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{ClusterIPs: []string{"::", "a"}, ExternalIPs: []string{"b"}}}, true, 3},
		"a Service with a policy that nobody knows": {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{InternalTrafficPolicy: &local}}, true, 0},
		"an external name that is none":             {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a_b.c d"}}, true, 1},
		"an external name that is too long":         {&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: long}}, true, 1},
		"an annotation without an end":              {&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Annotations: map[string]string{exportToAnnotation: strings.Repeat("a,", 1<<20)}}}, true, 1},
		"a slice of a Service that cannot be":       {slice(func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "a b" }), false, 1},
		"a slice of names":                          {slice(func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }), false, 1},
		"a slice of a type that nobody knows": {slice(func(s *discoveryv1.EndpointSlice) {
			s.AddressType, s.Endpoints = "IPX", []discoveryv1.Endpoint{ref("p", "n")}
		}), true, 1},
		"a slice of IPv4 with an address of IPv6":     {endpoints(discoveryv1.Endpoint{Addresses: []string{"fd00::1"}}), true, 1},
		"an endpoint without an address":              {endpoints(discoveryv1.Endpoint{}), true, 1},
		"an endpoint with a pod of another namespace": {endpoints(ref("p", "m")), true, 1},
		"an endpoint with a pod that cannot be":       {endpoints(ref("p/q", "n")), true, 1},
		"an endpoint in a zone that is no text":       {endpoints(discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Zone: new(string)}, discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}, Zone: ptr(bad)}), true, 1},
		"a node with a zone that is no text":          {node(map[string]string{corev1.LabelTopologyZone: bad, corev1.LabelTopologyRegion: long}), true, 2},
		"a node with a million labels":                {node(million), true, 0}, // three of them are read
		"a node with a name that is none":             {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "A"}}, false, 1},
		"a namespace with a million labels":           {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: million}}, false, 1},
		"a namespace with a name that is none":        {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "-a"}}, false, 1},
		"an object that nobody asked for":             {&corev1.Secret{ObjectMeta: named}, false, 0},
		"nothing":                                     {nil, false, 0},
	} {
		t.Run(what, func(t *testing.T) {
			var b model.Batch
			row, dropped := newConverter(testSource, "").add(&b, c.object)
			if row != c.row || dropped != c.dropped || b.Rows() > 1 || (b.Rows() == 1) != row {
				t.Errorf("a row %v, dropped %d; want %v, %d", row, dropped, c.row, c.dropped)
			}
			checkBatch(t, &b)
		})
	}
	hidden, _ := newConverter(testSource, "").service(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n",
		Annotations: map[string]string{exportToAnnotation: strings.Repeat("a,", 1<<20)}}})
	if hidden.Visibility != model.Nowhere {
		t.Error("a Service that asks not to be shown to all is shown")
	}
}

func ptr[T any](v T) *T { return &v }

func at(address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}}
}

func addresses(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	return list
}

func endpointsTo(n int) (list []discoveryv1.Endpoint) {
	for i, a := range addresses(n) {
		list = append(list, discoveryv1.Endpoint{Addresses: []string{a}, Zone: ptr(fmt.Sprint("z", i))})
	}
	return list
}

func servicePortsTo(n int) (list []corev1.ServicePort) {
	for i := range n {
		list = append(list, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
	}
	return list
}

func slicePortsTo(n int) (list []discoveryv1.EndpointPort) {
	for i := range n {
		list = append(list, discoveryv1.EndpointPort{Name: ptr(fmt.Sprint("p", i)), Port: ptr(int32(i + 1))})
	}
	return list
}

func containerPortsTo(n int) (list []corev1.ContainerPort) {
	for i := range n {
		list = append(list, corev1.ContainerPort{Name: fmt.Sprint("p", i), ContainerPort: int32(i + 1)})
	}
	return list
}

func TestVisibilityOf(t *testing.T) {
	for in, want := range map[string]model.Visibility{
		"": model.Everywhere, " , ,": model.Everywhere, "*": model.Everywhere, "~": model.Nowhere, ".": model.VisibleIn("own"),
		"a, b ,a,.": model.VisibleIn("a", "b", "own"), "~,a": model.Nowhere, "~, * ,a": model.Everywhere, "not a namespace": model.VisibleIn("not a namespace"),
	} {
		if got, ok := visibilityOf(in, "own"); got != want || !ok {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

// TestSlicePortsOfSeveralProtocols: rows tell ports apart by name, and clients
// balance over TCP.
func TestSlicePortsOfSeveralProtocols(t *testing.T) {
	got, dropped := newConverter(testSource, "").slice(parse[discoveryv1.EndpointSlice](t, `{"metadata":{"name":"a","namespace":"n","labels":{"kubernetes.io/service-name":"s"}},
		"addressType":"IPv4","ports":[{"name":"dns","port":53,"protocol":"UDP"},{"name":"dns","port":5353,"protocol":"TCP"},{"name":"dns","port":54,"protocol":"SCTP"},
		{"name":"quic","port":443,"protocol":"UDP"},{"name":"web","port":81},{"name":"web","port":80,"protocol":"UDP"},{"name":"web","port":80,"protocol":"TCP"}]}`))
	if want := "[{dns 5353} {quic 443} {web 80}]"; fmt.Sprint(got.Ports) != want || dropped != 0 {
		t.Errorf("ports %v, dropped %d; want %s", got.Ports, dropped, want)
	}
}

// TestUnusedIsCountedAndNamed: what an API server says that cannot be used is
// counted, in a list and in a watch, and the last object of it is named in one line.
func TestUnusedIsCountedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		ports := func(name string, numbers ...int32) *corev1.Service {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}}
			for i, n := range numbers {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: n})
			}
			return s
		}
		api.Set("services", ports("bad", 80, 0, 70000), ports("good", 80))
		s := &sink{kind: model.KindService}
		w, stop := runWatcher(t, api, s)
		is := func(count uint64, name string) {
			t.Helper()
			synctest.Wait()
			if row := w.Health().Kinds[model.KindService]; row.Dropped != count || row.LastDropped != name {
				t.Errorf("%d dropped, the last of %q; want %d and %q", row.Dropped, row.LastDropped, count, name)
			}
		}
		is(2, "n/bad")
		api.Put("services", ports("good", 80, 81))
		is(2, "n/bad")
		api.Put("services", ports("good", 80, -1))
		is(3, "n/good")
		api.Put("services", ports("two\nlines of "+strings.Repeat("x", 1000), 80)) // no row at all
		synctest.Wait()
		if row := w.Health().Kinds[model.KindService]; row.Dropped != 4 || strings.Contains(row.LastDropped, "\n") || len(row.LastDropped) > 400 {
			t.Errorf("%d dropped, the last of %q", row.Dropped, row.LastDropped)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
