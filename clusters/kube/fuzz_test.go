package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary/model"
)

// FuzzVisibility: an annotation says the same in any order, and nothing that it
// says is shown where it does not say so.
func FuzzVisibility(f *testing.F) {
	for _, s := range []string{"", "*", "~", ".", "a, b", "~,a", ",.,", "a\xff", strings.Repeat("a,", 100)} {
		f.Add(s, "own")
	}
	f.Fuzz(func(t *testing.T, annotation, own string) {
		if !usableName(own) {
			return
		}
		v, ok := visibilityOf(annotation, own)
		list := strings.Split(annotation, ",")
		slices.Reverse(list)
		if again, same := visibilityOf(strings.Join(list, ","), own); again != v || same != ok {
			t.Errorf("%q: %v; in another order %v", annotation, v, again)
		}
		if !ok && v != model.Nowhere || !utf8.ValidString(v.String()) {
			t.Errorf("%q: %v, %v", annotation, v, ok)
		}
		if v.To("somewhere-else") && v != model.Everywhere && !strings.Contains(annotation, "somewhere-else") {
			t.Errorf("%q is shown somewhere else", annotation)
		}
	})
}

// FuzzSelectors: selectors of namespaces read packed labels as they read a map.
func FuzzSelectors(f *testing.F) {
	f.Add([]byte(`[{"matchLabels":{"env":"prod"}},{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}]`), "env", "prod")
	f.Add([]byte(`[{"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"b","operator":"DoesNotExist"}]},{}]`), "a", "")
	f.Fuzz(func(t *testing.T, data []byte, key, value string) {
		var list []metav1.LabelSelector
		if json.Unmarshal(data, &list) != nil {
			return
		}
		s, err := ParseSelectors(list)
		if err != nil {
			if !s.all() {
				t.Errorf("selectors %+v with error %v", s, err)
			}
			return
		}
		labels := map[string]string{key: value, "kubernetes.io/metadata.name": "n"}
		want := len(s.any) == 0
		for _, one := range s.any {
			want = want || one.Matches(mapLabels(labels))
		}
		if got := s.match(model.NewLabels(labels)); got != want {
			t.Errorf("%s match %v: %v, want %v", data, labels, got, want)
		}
	})
}

// mapLabels are labels as a map.
type mapLabels map[string]string

func (l mapLabels) Has(key string) bool              { _, ok := l[key]; return ok }
func (l mapLabels) Get(key string) string            { return l[key] }
func (l mapLabels) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }

// FuzzCheck: what is told of manifests agrees with what is read of them: where a
// file cannot be read there is an error, and each document that is there is told of
// with its number.
func FuzzCheck(f *testing.F) {
	f.Add("x.yaml", []byte(good))
	f.Add("x.json", []byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"B"},"spec":{"ports":[{"port":0}]}}]}`))
	f.Add("x.yaml", []byte("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a, labels: {kubernetes.io/service-name: b}}\naddressType: IPv4\nports: [{name: x}]\nendpoints: [{addresses: [x]}]\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		path := filepath.Join(dir, "x.yaml")
		if strings.HasSuffix(name, ".json") {
			path = filepath.Join(dir, "x.json")
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out := Check(testSource, "", []string{path})
		bad := false
		for _, found := range out.Findings {
			if found.File != path || found.Document < 1 || found.Message == "" {
				t.Errorf("finding %+v", found)
			}
			bad = bad || !found.Warning
		}
		m, err := parseManifest(path, data, newConverter(testSource, ""))
		if err != nil && !bad || err == nil && m.dropped > 0 && !bad {
			t.Errorf("%q: read with %v, found %+v", data, err, out.Findings)
		}
		for i := range out.Batches {
			checkBatch(t, &out.Batches[i])
		}
	})
}

// FuzzProtocol: what a port speaks is known, and a transport that clients do not
// balance over is never taken for one that they do.
func FuzzProtocol(f *testing.F) {
	f.Add(int32(80), "http-x", "TCP", "kubernetes.io/h2c", "8080")
	f.Add(int32(0), "", "", "", "x")
	f.Fuzz(func(t *testing.T, number int32, name, transport, app, target string) {
		p, ok := servicePort(&corev1.ServicePort{Name: name, Port: number, Protocol: corev1.Protocol(transport), AppProtocol: &app, TargetPort: intstr.Parse(target)})
		if !ok {
			return
		}
		if int32(p.Number) != number || !utf8.ValidString(p.Name+p.TargetPort) {
			t.Errorf("port %+v", p)
		}
		if transport == "UDP" && p.Protocol != model.UDP || transport == "SCTP" && p.Protocol != model.SCTP || p.Protocol.String() == "" {
			t.Errorf("port %+v of transport %s", p, transport)
		}
	})
}
