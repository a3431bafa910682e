package kube

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary/model"
)

// parse reads an object from JSON; the tests write objects as people do.
func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	o := new(T)
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func addr(s string) model.Addr {
	a, ok := model.ParseAddr(s)
	if !ok {
		panic(s)
	}
	return a
}

func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		number    int32
		name      string
		transport corev1.Protocol
		app       string
		want      model.Protocol
	}{
		{80, "http", "TCP", "", model.HTTP},
		{80, "HTTP-web", "", "", model.HTTP},
		{80, "http2-x", "", "", model.HTTP2},
		{80, "http3", "", "", model.Unknown},
		{80, "httpx", "", "", model.Unknown},
		{80, "grpc", "", "", model.GRPC},
		{80, "grpc-web", "", "", model.GRPCWeb},
		{80, "GRPC-Web-x", "", "", model.GRPCWeb},
		{80, "grpc-webby", "", "", model.GRPCWeb}, // as in Istio: a prefix
		{80, "grpc-other", "", "", model.GRPC},
		{443, "https", "", "", model.HTTPS},
		{443, "tls-x", "", "", model.TLS},
		{1, "tcp-http", "", "", model.TCP},
		{1, "udp", "TCP", "", model.UDP},
		{1, "mongo", "", "", model.Mongo},
		{1, "mysql", "", "", model.MySQL},
		{1, "redis-x", "", "", model.Redis},
		{1, "", "", "", model.Unknown},
		{1, "-http", "", "", model.Unknown},
		{53, "http", "UDP", "", model.UDP},
		{80, "http", "SCTP", "http", model.SCTP},
		{80, "tcp", "TCP", "http", model.HTTP},
		{80, "http", "TCP", "example.com/own", model.Unknown},
		{80, "", "TCP", "kubernetes.io/h2c", model.HTTP2},
		{80, "", "TCP", "kubernetes.io/ws", model.HTTP},
		{80, "", "TCP", "kubernetes.io/wss", model.HTTPS},
		{80, "", "TCP", "GRPC", model.GRPC},
		{25, "", "", "", model.TCP},
		{53, "dns", "", "", model.TCP},
		{3306, "db", "", "", model.TCP},
		{27017, "db", "", "", model.TCP},
		{3306, "http", "", "", model.HTTP},
	} {
		var app *string
		if c.app != "" {
			app = &c.app
		}
		if got := protocolOf(c.number, c.name, c.transport, app); got != c.want {
			t.Errorf("port %d %q %q appProtocol %q: %v, want %v", c.number, c.name, c.transport, c.app, got, c.want)
		}
	}
}

func TestConvertService(t *testing.T) {
	c := newConverter(testSource, "")
	key := model.ServiceKey{Host: "web.shop.svc.cluster.local", Namespace: "shop"}
	for _, tc := range []struct {
		name, in string
		want     model.Service
		dropped  int
	}{
		{"cluster IP", `{"metadata":{"name":"web","namespace":"shop","resourceVersion":"42","creationTimestamp":"2026-01-02T03:04:05Z"},
			"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1","10.0.0.1"],"selector":{"app":"web"},"ports":[
			{"name":"tcp-x","port":9000,"targetPort":"x"},{"name":"http","port":80,"targetPort":8080},{"name":"same","port":81,"targetPort":81}]}}`,
			model.Service{Created: 1767323045, Version: 42, VIPs: []model.Addr{addr("10.0.0.1"), addr("fd00::1")}, DualStack: true, Selector: model.NewLabels(map[string]string{"app": "web"}),
				Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP, TargetPort: "8080"}, {Name: "same", Number: 81}, {Name: "tcp-x", Number: 9000, Protocol: model.TCP, TargetPort: "x"}}}, 0},
		{"headless", `{"metadata":{"name":"web","namespace":"shop","resourceVersion":"x1"},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"name":"dns","port":53,"protocol":"UDP"},{"name":"dns-tcp","port":53},{"name":"dns-sctp","port":53,"protocol":"SCTP"}]}}`,
			model.Service{Resolution: model.Passthrough, Ports: []model.Port{{Name: "dns", Number: 53, Protocol: model.UDP}, {Name: "dns-sctp", Number: 53, Protocol: model.SCTP}, {Name: "dns-tcp", Number: 53, Protocol: model.TCP}}}, 0},
		{"ports that cannot be told apart", `{"metadata":{"name":"web","namespace":"shop"},"spec":{"ports":[{"port":80},{"port":81},{"name":"a","port":80,"protocol":"TCP"},{"name":"b","port":80,"protocol":"UDP"},{"name":"b","port":7}]}}`,
			model.Service{Ports: []model.Port{{Number: 80}, {Name: "b", Number: 80, Protocol: model.UDP}}}, 3},
		{"another one's creation and version", `{"metadata":{"name":"web","namespace":"shop","resourceVersion":"-1","creationTimestamp":"9999-01-01T00:00:00Z","ownerReferences":[{"kind":"Nothing","name":"nowhere"}]}}`,
			model.Service{Created: 253370764800}, 0},
		{"external name", `{"metadata":{"name":"web","namespace":"shop"},"spec":{"type":"ExternalName","externalName":"Example.com.","clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9","fd00::9"],"externalIPs":["192.0.2.1"],"internalTrafficPolicy":"Local"}}`,
			model.Service{Resolution: model.Alias, AliasOf: "example.com"}, 0},
		{"external name that is none", `{"metadata":{"name":"web","namespace":"shop"},"spec":{"type":"ExternalName","externalName":"a b"}}`, model.Service{Resolution: model.Alias}, 1},
		{"external addresses", `{"metadata":{"name":"web","namespace":"shop"},"spec":{"clusterIP":"10.0.0.9","externalIPs":["192.0.2.1","x","192.0.2.1","fd00::1"]}}`,
			model.Service{VIPs: []model.Addr{addr("10.0.0.9")}, External: []model.Addr{addr("192.0.2.1"), addr("fd00::1")}}, 1},
		{"node local, headless with both families", `{"metadata":{"name":"web","namespace":"shop"},"spec":{"clusterIP":"None","internalTrafficPolicy":"Local","ipFamilies":["IPv6","IPv4"]}}`,
			model.Service{Resolution: model.Passthrough, NodeLocal: true, DualStack: true}, 0},
		{"accounts", `{"metadata":{"name":"web","namespace":"shop","annotations":{"alpha.istio.io/kubernetes-serviceaccounts":" b,a ,,a, x/y, A B","alpha.istio.io/canonical-serviceaccounts":"spiffe://td/ns/x/sa/y, plain"}}}`,
			model.Service{Accounts: []string{"shop/a", "shop/b", "spiffe://td/ns/x/sa/y"}}, 3},
		{"shown to some", `{"metadata":{"name":"web","namespace":"shop","annotations":{"networking.istio.io/exportTo":" ops, .,shop ,,"}}}`,
			model.Service{Visibility: model.VisibleIn("ops", "shop")}, 0},
		{"bad values", `{"metadata":{"name":"web","namespace":"shop"},"spec":{"clusterIPs":["10.0.0.300","0.0.0.0","::","ff02::1","fe80::1%eth0","10.0.0.2"],
			"ports":[{"port":0},{"port":-5},{"port":70000},{"port":7,"targetPort":-1}]}}`,
			model.Service{VIPs: []model.Addr{addr("10.0.0.2")}, Ports: []model.Port{{Number: 7, TargetPort: "-1"}}}, 8},
	} {
		got, dropped := c.service(parse[corev1.Service](t, tc.in))
		tc.want.Key, tc.want.Name, tc.want.Registry = key, "web", testSource
		if !got.Equal(&tc.want) || got.Version != tc.want.Version || dropped != tc.dropped {
			t.Errorf("%s: dropped %d, want %d; %s", tc.name, dropped, tc.dropped,
				cmp.Diff(&tc.want, got, cmp.AllowUnexported(model.Labels{})))
		}
	}
	if s, dropped := c.service(&corev1.Service{}); s != nil || dropped != 1 {
		t.Errorf("a Service without a name: %+v, dropped %d", s, dropped)
	}
	s, _ := newConverter(testSource, ".mesh.example.").service(parse[corev1.Service](t, `{"metadata":{"name":"a","namespace":"b"}}`))
	if s.Key.Host != "a.b.svc.mesh.example" {
		t.Errorf("host %q", s.Key.Host)
	}
}

func TestConvertSlice(t *testing.T) {
	const (
		head  = `{"metadata":{"name":"web-1","namespace":"shop","resourceVersion":"7","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4",`
		ready = model.EndpointReady | model.EndpointServing
	)
	c := newConverter(testSource, "")
	for _, tc := range []struct {
		name, in string
		want     model.EndpointSlice
		dropped  int
	}{
		{"ports", head + `"ports":[{"name":"b","port":2},{"name":"a","port":1},{"port":3},{"name":"none"},{"name":"b","port":9},{"name":"bad","port":0},{"name":"worse","port":99999}]}`,
			model.EndpointSlice{Ports: []model.SlicePort{{Number: 3}, {Name: "a", Number: 1}, {Name: "b", Number: 2}}}, 3},
		{"sorted, first address only", head + `"endpoints":[{"addresses":["10.0.0.2","10.9.9.9"],"zone":"z1"},{"addresses":["10.0.0.1"],"targetRef":{"kind":"Pod","namespace":"shop","name":"p","uid":"u"}}]}`,
			model.EndpointSlice{Endpoints: []model.SliceEndpoint{
				{Addr: addr("10.0.0.1"), Pod: "p", UID: model.ParseUID("u"), Conditions: ready},
				{Addr: addr("10.0.0.2"), Zone: "z1", Conditions: ready}}}, 0},
		{"conditions", head + `"endpoints":[
			{"addresses":["10.0.0.1"],"conditions":{"ready":false}},
			{"addresses":["10.0.0.2"],"conditions":{"ready":false,"serving":true,"terminating":true}},
			{"addresses":["10.0.0.3"],"conditions":{"ready":true,"serving":false}},
			{"addresses":["10.0.0.4"],"conditions":{"serving":true}}]}`,
			model.EndpointSlice{Endpoints: []model.SliceEndpoint{
				{Addr: addr("10.0.0.1")},
				{Addr: addr("10.0.0.2"), Conditions: model.EndpointServing | model.EndpointTerminating},
				{Addr: addr("10.0.0.3"), Conditions: model.EndpointReady},
				{Addr: addr("10.0.0.4"), Conditions: ready}}}, 0},
		{"duplicates", head + `"endpoints":[
			{"addresses":["10.0.0.1"],"conditions":{"ready":false},"targetRef":{"kind":"Pod","name":"a"}},
			{"addresses":["10.0.0.1"],"targetRef":{"kind":"Pod","name":"c"}},
			{"addresses":["10.0.0.1"],"targetRef":{"kind":"Pod","name":"b"}},
			{"addresses":["10.0.0.1"]}]}`,
			model.EndpointSlice{Endpoints: []model.SliceEndpoint{{Addr: addr("10.0.0.1"), Pod: "b", Conditions: ready}}}, 0},
		{"bad addresses", head + `"endpoints":[{"addresses":[]},{"addresses":["x"]},{"addresses":["0.0.0.0"]},{"addresses":["::ffff:0.0.0.0"]},
			{"addresses":["10.0.0.1"],"targetRef":{"kind":"Pod","namespace":"other","name":"p"}},
			{"addresses":["10.0.0.2"],"targetRef":{"kind":"Node","name":"n"}}]}`,
			model.EndpointSlice{Endpoints: []model.SliceEndpoint{{Addr: addr("10.0.0.2"), Conditions: ready}}}, 5},
	} {
		got, dropped := c.slice(parse[discoveryv1.EndpointSlice](t, tc.in))
		tc.want.Object, tc.want.Service, tc.want.Version = model.NamespacedName{Namespace: "shop", Name: "web-1"}, "web", 7
		if d := cmp.Diff(&tc.want, got); d != "" || dropped != tc.dropped {
			t.Errorf("%s: dropped %d, want %d; %s", tc.name, dropped, tc.dropped, d)
		}
	}
	for _, in := range []string{
		`{"metadata":{"name":"a","namespace":"b"},"addressType":"IPv4"}`,
		`{"metadata":{"name":"a","namespace":"b","labels":{"kubernetes.io/service-name":"s"}},"addressType":"FQDN"}`,
		`{"metadata":{"name":"a","namespace":"b","labels":{"kubernetes.io/service-name":"s","multicluster.kubernetes.io/service-name":"s"}},"addressType":"IPv4"}`,
	} {
		if got, _ := c.slice(parse[discoveryv1.EndpointSlice](t, in)); got != nil {
			t.Errorf("%s became %+v", in, got)
		}
	}
}

func TestConvertPod(t *testing.T) {
	c := newConverter(testSource, "")
	got, dropped := c.pod(parse[corev1.Pod](t, `{"metadata":{"name":"p","namespace":"shop","uid":"01234567-89ab-cdef-0123-456789abcdef",
		"labels":{"app":"web","istio-locality":"eu.eu-1.rack","topology.istio.io/network":"n1"}},
		"spec":{"nodeName":"node1","serviceAccountName":"sa","hostNetwork":true,
			"initContainers":[{"ports":[{"name":"no","containerPort":1}]},{"restartPolicy":"Always","ports":[{"name":"side","containerPort":15}]}],
			"containers":[{"ports":[{"name":"http","containerPort":8080},{"containerPort":9}]},{"ports":[{"name":"http","containerPort":7},{"name":"bad","containerPort":0}]}]},
		"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd00::1"},{"ip":"nonsense"}],"conditions":[{"type":"Ready","status":"True"}]}}`))
	want := &model.WorkloadInstance{
		Name: "p", UID: model.ParseUID("01234567-89ab-cdef-0123-456789abcdef"), Addr: addr("10.0.0.1"), Labels: got.Labels,
		Identity:  &model.Identity{Cluster: "c1", Kind: model.Pod, Namespace: "shop", ServiceAccount: "sa"},
		Placement: &model.Placement{Node: "node1", Locality: "eu/eu-1/rack", Network: "n1"},
		Details:   &model.WorkloadDetails{More: []model.Addr{addr("fd00::1")}, Ports: []model.NamedPort{{Name: "http", Number: 8080}, {Name: "side", Number: 15}}},
		State:     model.Ready | model.HostNetwork,
	}
	if !got.Equal(want) || dropped != 2 {
		t.Errorf("dropped %d; %s", dropped, cmp.Diff(want, got, cmp.AllowUnexported(model.Labels{})))
	}
	if v, _ := got.Labels.Get("app"); v != "web" {
		t.Errorf("labels %v", got.Labels.Map())
	}

	for in, state := range map[string]model.WorkloadState{
		`"status":{"phase":"Failed"}`:    model.Finished,
		`"status":{"phase":"Succeeded"}`: model.Finished,
		`"status":{"phase":"Running"}`:   0,
	} {
		got, _ := c.pod(parse[corev1.Pod](t, `{"metadata":{"name":"p","namespace":"n"},`+in+`}`))
		if got.State != state || got.Details != nil || !got.Addr.IsZero() || got.Identity.ServiceAccount != "default" {
			t.Errorf("%s: %+v", in, got)
		}
	}
	got, _ = c.pod(parse[corev1.Pod](t, `{"metadata":{"name":"p","namespace":"n","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"podIPs":[{"ip":"10.0.0.3"}]}}`))
	if got.State != model.Terminating || got.Addr != addr("10.0.0.3") {
		t.Errorf("terminating pod: %+v", got)
	}
	for label, want := range map[string]model.Locality{"": "", "a": "a", "a.b": "a/b", "a/b.c": "a/b.c", "a..": "a"} {
		if got := localityOf(label); got != want {
			t.Errorf("locality label %q: %q, want %q", label, got, want)
		}
	}
}

// What every row must be, whatever it was made from.
func checkBatch(t *testing.T, b *model.Batch) {
	t.Helper()
	for _, s := range b.Services {
		if s.Name == "" || !strings.HasPrefix(s.Key.Host, s.Name+"."+s.Key.Namespace+".") || !slices.IsSortedFunc(s.Ports, model.ComparePorts) {
			t.Errorf("service %+v", s)
		}
		for _, p := range s.Ports {
			_ = p.Protocol.String()
		}
		_ = s.Resolution.String()
		if s.Visibility.String() == "" || (s.Resolution == model.Alias) && (len(s.VIPs)+len(s.External) > 0 || s.NodeLocal) ||
			s.AliasOf != "" && (s.Resolution != model.Alias || !usableName(s.AliasOf)) {
			t.Errorf("service %+v", s)
		}
	}
	for _, n := range b.Nodes {
		if region, zone, subzone := n.Locality.Split(); !usableName(n.Name) || !utf8.ValidString(string(n.Locality)) || n.Locality != model.NewLocality(region, zone, subzone) {
			t.Errorf("node %+v", n)
		}
	}
	for _, n := range b.Namespaces {
		if name, _ := n.Labels.Get(corev1.LabelMetadataName); !usableName(n.Name) || name != n.Name {
			t.Errorf("namespace %+v", n)
		}
	}
	for _, s := range b.Slices {
		for i, e := range s.Endpoints {
			if e.Addr.IsZero() || i > 0 && s.Endpoints[i-1].Addr.Compare(e.Addr) >= 0 {
				t.Errorf("slice %v: addresses %+v", s.Object, s.Endpoints)
			}
		}
		for i := range s.Ports {
			if s.Ports[i].Number == 0 || i > 0 && s.Ports[i-1].Name >= s.Ports[i].Name {
				t.Errorf("slice %v: ports %+v", s.Object, s.Ports)
			}
		}
	}
	for _, w := range b.Workloads {
		if w.Key().Name == "" || w.Identity == nil || w.Placement == nil {
			t.Errorf("workload %+v", w)
		}
		for k, v := range w.Labels.All() {
			if !utf8.ValidString(k + v) {
				t.Errorf("label %q=%q", k, v)
			}
		}
	}
}

func fuzzConvert[T any](f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	c := newConverter(testSource, "")
	f.Fuzz(func(t *testing.T, data []byte) {
		o := new(T)
		if json.Unmarshal(data, o) != nil {
			return
		}
		var a, b model.Batch
		c.add(&a, o)
		checkBatch(t, &a)
		c.add(&b, o)
		if d := cmp.Diff(a, b, cmp.AllowUnexported(model.Labels{})); d != "" {
			t.Errorf("twice the same object: %s", d)
		}
	})
}

func FuzzConvertService(f *testing.F) {
	fuzzConvert[corev1.Service](f,
		`{"metadata":{"name":"web","namespace":"shop"},"spec":{"clusterIPs":["10.0.0.1","::"],"ports":[{"name":"http","port":80,"targetPort":"x","appProtocol":"kubernetes.io/h2c"}],"selector":{"a":""}}}`,
		`{"metadata":{"name":"web","namespace":"shop","creationTimestamp":"0001-01-01T00:00:00Z"},"spec":{"type":"ExternalName","externalName":"a.B."}}`,
		`{"metadata":{"name":"web","namespace":"shop","annotations":{"networking.istio.io/exportTo":"., a,~"}},"spec":{"externalIPs":["1.2.3.4"],"ipFamilies":["IPv4","IPv6"],"internalTrafficPolicy":"Local"}}`)
}

func FuzzConvertNode(f *testing.F) {
	fuzzConvert[corev1.Node](f, `{"metadata":{"name":"n","labels":{"topology.kubernetes.io/region":"r","failure-domain.beta.kubernetes.io/zone":"z","topology.istio.io/subzone":"s/t"}}}`)
}

func FuzzConvertNamespace(f *testing.F) {
	fuzzConvert[corev1.Namespace](f, `{"metadata":{"name":"n","labels":{"kubernetes.io/metadata.name":"m","topology.istio.io/network":"net"}}}`)
}

func FuzzConvertSlice(f *testing.F) {
	fuzzConvert[discoveryv1.EndpointSlice](f,
		`{"metadata":{"name":"a","namespace":"b","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv4","ports":[{"name":"x","port":1},{}],
		"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"p","uid":"u"},"zone":"z"},{"addresses":["10.0.0.1"]},{}]}`)
}

func FuzzConvertPod(f *testing.F) {
	fuzzConvert[corev1.Pod](f,
		`{"metadata":{"name":"p","namespace":"n","labels":{"istio-locality":"a.b.c"},"deletionTimestamp":"2026-01-01T00:00:00Z"},
		"spec":{"containers":[{"ports":[{"name":"x","containerPort":1}]}]},"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"::1"}],"conditions":[{"type":"Ready","status":"True"}]}}`)
}
