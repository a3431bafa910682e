package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tributary/model"
)

// check writes files and returns what is found in them, a line each.
func check(t *testing.T, files map[string]string) (lines []string, out Checked) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := ManifestFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	out = Check(model.ShardKey{Provider: model.Kubernetes, Cluster: "c"}, "", paths)
	for _, f := range out.Findings {
		kind := "error"
		if f.Warning {
			kind = "warning"
		}
		lines = append(lines, fmt.Sprintf("%s %s:%d %s %s: %s", kind, filepath.Base(f.File), f.Document, f.Object, f.Field, f.Message))
	}
	return lines, out
}

const good = `
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, uid: u1}
status: {phase: Running, podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-a, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, name: cart-1, uid: u1}}]
`

func TestCheckFindsNothing(t *testing.T) {
	lines, out := check(t, map[string]string{"a.yaml": good, "b.yaml": "# nothing\n", "notes.txt": "no manifest"})
	if len(lines) > 0 || out.Objects != 3 || len(out.Batches) != int(model.Kinds) {
		t.Errorf("%q, %d objects", lines, out.Objects)
	}
	if at := out.Where[model.ServiceKey{Host: "cart.shop.svc.cluster.local", Namespace: "shop"}]; filepath.Base(at.File) != "a.yaml" || at.Document != 1 {
		t.Errorf("the service is at %+v", at)
	}
}

// Each fault is told with its document and field, and no other is.
func TestCheckFinds(t *testing.T) {
	object := func(kind, rest string) string {
		version := "v1"
		if kind == "EndpointSlice" {
			version = "discovery.k8s.io/v1"
		}
		return fmt.Sprintf("apiVersion: %s\nkind: %s\n%s\n", version, kind, rest)
	}
	slice := func(rest string) string {
		return good + "---\n" + object("EndpointSlice", "metadata: {name: more, namespace: shop, labels: {kubernetes.io/service-name: cart}}\n"+rest)
	}
	for text, want := range map[string]string{
		"kind: Service\n": "error a.yaml:1  : not a Kubernetes object: apiVersion or kind is missing",
		"a: [\n":          "error a.yaml:1  : ",
		object("Service", "metadata: {name: a}\nspec: {ports: many}"):                                                                        "error a.yaml:1  spec.ports: decoding a Service",
		object("Service", "metadata: {name: a}\nspec: {prots: []}"):                                                                          `warning a.yaml:1 Service a spec.prots: unknown field "spec.prots"`,
		object("Service", "metadata: {name: a, name: b}"):                                                                                    "warning a.yaml:1  : ",
		object("Service", "metadata: {name: Abc}"):                                                                                           `error a.yaml:1 Service default/Abc metadata.name: "Abc" cannot be used`,
		object("Service", "metadata: {name: a, namespace: a_b}"):                                                                             `error a.yaml:1 Service a_b/a metadata.namespace: "a_b" cannot be used`,
		object("Service", "metadata: {name: a}\nspec: {ports: [{port: 80}, {port: 70000}]}"):                                                 "error a.yaml:1 Service default/a spec.ports[1]: {",
		object("Service", "metadata: {name: a}\nspec: {clusterIPs: [10.0.0.1, 1.2.3]}"):                                                      `error a.yaml:1 Service default/a spec.clusterIPs[1]: "1.2.3" cannot be used`,
		object("Service", "metadata: {name: a}\nspec: {clusterIP: 0.0.0.0}"):                                                                 `error a.yaml:1 Service default/a spec.clusterIP: "0.0.0.0" cannot be used`,
		object("Service", "metadata: {name: a}\nspec: {externalIPs: [x]}"):                                                                   `error a.yaml:1 Service default/a spec.externalIPs[0]: "x" cannot be used`,
		object("Service", "metadata: {name: a}\nspec: {type: ExternalName, externalName: 'not us'}"):                                         `error a.yaml:1 Service default/a spec.externalName: "not us" cannot be used`,
		object("Pod", "metadata: {name: a}\nspec: {serviceAccountName: A}"):                                                                  `error a.yaml:1 Pod default/a spec.serviceAccountName: "A" cannot be used`,
		object("Pod", "metadata: {name: a}\nspec: {nodeName: A}"):                                                                            `error a.yaml:1 Pod default/a spec.nodeName: "A" cannot be used`,
		object("Pod", "metadata: {name: a}\nstatus: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: x}]}"):                                   `error a.yaml:1 Pod default/a status.podIPs[1]: "x" cannot be used`,
		object("Pod", "metadata: {name: a}\nspec: {containers: [{name: c, ports: [{name: x, containerPort: -1}]}]}"):                         "error a.yaml:1 Pod default/a spec.containers[0].ports[0]: {",
		object("Pod", "metadata: {name: a, labels: {istio-locality: "+strings.Repeat("x", 300)+"}}"):                                         "error a.yaml:1 Pod default/a metadata.labels[istio-locality]: ",
		object("Node", "metadata: {name: a, labels: {topology.kubernetes.io/zone: "+strings.Repeat("x", 300)+"}}"):                           "error a.yaml:1 Node a metadata.labels[topology.kubernetes.io/zone]: ",
		object("Node", "metadata: {name: A}"):                                                                                                `error a.yaml:1 Node A metadata.name: "A" cannot be used`,
		object("Namespace", "metadata: {name: A}"):                                                                                           `error a.yaml:1 Namespace A metadata.name: "A" cannot be used`,
		object("Tree", "metadata: {name: a}"):                                                                                                "warning a.yaml:1  kind: v1 Tree is not known and not read",
		object("Endpoints", "metadata: {name: a}"):                                                                                           "warning a.yaml:1  kind: v1 Endpoints is not known and not read",
		slice("addressType: FQDN\nendpoints: [{addresses: [a.b]}]"):                                                                          `error a.yaml:4 EndpointSlice shop/more addressType: "FQDN" cannot be used`,
		slice("addressType: IPv4\nports: [{name: http}]"):                                                                                    "error a.yaml:4 EndpointSlice shop/more ports[0]: {",
		slice("addressType: IPv4\nendpoints: [{addresses: [10.1.1.1]}, {addresses: ['::1']}]"):                                               "error a.yaml:4 EndpointSlice shop/more endpoints[1]: {",
		slice("addressType: IPv4\nendpoints: [{addresses: [10.1.1.1], targetRef: {kind: Pod, name: a, namespace: other}}]"):                  "error a.yaml:4 EndpointSlice shop/more endpoints[0]: {",
		slice("addressType: IPv4\nendpoints: [{addresses: [10.1.1.1], targetRef: {kind: Pod, name: cart-2}}]"):                               "warning a.yaml:4 EndpointSlice shop/more endpoints[0].targetRef: there is no Pod shop/cart-2 among the manifests",
		slice("addressType: IPv4\nendpoints: [{addresses: [10.1.1.1], targetRef: {kind: Pod, name: cart-1, uid: u2}}]"):                      "warning a.yaml:4 EndpointSlice shop/more endpoints[0].targetRef: Pod shop/cart-1 has another uid",
		slice("addressType: IPv4\nports: [{name: web, port: 80}]"):                                                                           `warning a.yaml:4 EndpointSlice shop/more ports[0].name: Service shop/cart has no port named "web"`,
		object("EndpointSlice", "metadata: {name: a, labels: {kubernetes.io/service-name: gone}}\naddressType: IPv4"):                        "warning a.yaml:1 EndpointSlice default/a metadata.labels[kubernetes.io/service-name]: there is no Service default/gone",
		object("EndpointSlice", "metadata: {name: a}\naddressType: IPv4"):                                                                    "warning a.yaml:1 EndpointSlice default/a metadata.labels[kubernetes.io/service-name]: the label is missing",
		object("List", "items: [{apiVersion: v1, kind: Service, metadata: {name: B}}]"):                                                      `error a.yaml:1 Service default/B metadata.name: "B" cannot be used`,
		good + "---\nkind: x\n---\n" + object("Service", "metadata: {name: cart, namespace: shop}\nspec: {ports: [{name: http, port: 80}]}"): "warning a.yaml:1 Service shop/cart : it is given again in",
	} {
		lines, _ := check(t, map[string]string{"a.yaml": text})
		most := 1
		if strings.Contains(text, "kind: x") {
			most = 2
		}
		if len(lines) != most || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("%s\nfound %q, want %q", text, lines, want)
		}
	}
}

// A file that cannot be read, and JSON that ends in the middle, are errors.
func TestCheckFiles(t *testing.T) {
	lines, out := check(t, map[string]string{"a.json": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}{"kind`})
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "error a.json:2 ") || out.Objects != 1 {
		t.Errorf("%q, %d objects", lines, out.Objects)
	}
	out = Check(model.ShardKey{}, "", []string{filepath.Join(t.TempDir(), "no.yaml")})
	if len(out.Findings) != 1 || out.Findings[0].Warning {
		t.Errorf("%+v", out.Findings)
	}
}
