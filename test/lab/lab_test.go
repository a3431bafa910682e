package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"tributary/test/parts"
	"tributary/test/tb"
)

// shared is the lab of this package's tests.
var shared *Lab

func TestMain(m *testing.M) {
	os.Exit(func() int {
		begin := time.Now()
		var err error
		shared, err = New(context.Background(), Options{
			Clusters:    []string{"a", "b"},
			Controllers: true,
			Tokens:      []Token{{Token: "reader-token", User: "reader", Groups: []string{"readers", "people"}}},
			Log:         func(line string) { fmt.Fprintln(os.Stderr, "lab:", line) },
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Fprintln(os.Stderr, "lab: two clusters after", time.Since(begin).Round(time.Millisecond))
		code := m.Run()
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, "after closing the lab:", err)
			return 1
		}
		return code
	}())
}

// addresses waits until the slices of a service hold the given ready addresses
// and returns the slice of the last look.
func addresses(t *testing.T, c *Cluster, namespace, service string, want ...string) (slice discoveryv1.EndpointSlice) {
	t.Helper()
	tb.Eventually(t, 20*time.Second, fmt.Sprintf("%s to have %v in %s", service, want, c.ID), func(ctx context.Context) error {
		slices, err := c.EndpointSlices(ctx, namespace, service)
		if err != nil {
			return err
		}
		var got []string
		for _, s := range slices {
			slice = s
			for _, e := range s.Endpoints {
				if *e.Conditions.Ready {
					got = append(got, e.Addresses...)
				}
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			return fmt.Errorf("its ready addresses are %v", got)
		}
		return nil
	})
	return slice
}

func TestAReadyPodBecomesAnEndpointInItsClusterAlone(t *testing.T) {
	ns := shared.Namespace(t, "web")
	a, b := shared.Cluster("a"), shared.Cluster("b")
	app := map[string]string{"app": "web"}
	for _, c := range shared.Clusters() {
		c.CreateNode(t, "n1", "eu", "eu-"+c.ID)
		c.CreateService(t, ns, "web", app, Port("http", 8080))
	}
	a.CreateReadyPod(t, ns, "web-1", "10.1.0.1", app, "n1")
	b.CreatePod(t, Pod{Namespace: ns, Name: "web-1", IP: "10.2.0.1", Labels: app, Node: "n1", ServiceAccount: "web", NotReady: true})

	slice := addresses(t, a, ns, "web", "10.1.0.1")
	if e := slice.Endpoints[0]; e.Zone == nil || *e.Zone != "eu-a" || e.TargetRef == nil || e.TargetRef.Name != "web-1" {
		t.Errorf("endpoint = %+v, want zone eu-a and a reference to the pod", e)
	}
	addresses(t, b, ns, "web")
	b.SetPodReady(t, ns, "web-1", true)
	addresses(t, b, ns, "web", "10.2.0.1")
	b.DeletePod(t, ns, "web-1")
	addresses(t, b, ns, "web")
	addresses(t, a, ns, "web", "10.1.0.1")
}

func TestClustersHaveServiceRangesOfTheirOwn(t *testing.T) {
	ns := shared.Namespace(t, "range")
	a := shared.Cluster("a").CreateService(t, ns, "s", nil, Port("tcp", 1))
	b := shared.Cluster("b").CreateService(t, ns, "s", nil, Port("tcp", 1))
	if a.Spec.ClusterIP[:6] == b.Spec.ClusterIP[:6] {
		t.Errorf("both clusters give addresses of one range: %s and %s", a.Spec.ClusterIP, b.Spec.ClusterIP)
	}
}

func TestApplyTakesStatusAndChanges(t *testing.T) {
	ns := shared.Namespace(t, "apply")
	c := shared.Cluster("a")
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: n-apply, labels: {topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: %[1]s}
spec: {selector: {app: s}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
# nothing
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: %[1]s, labels: {app: s}}
spec: {nodeName: n-apply, terminationGracePeriodSeconds: 0, containers: [{name: c, image: none}]}
status: {phase: Running, podIP: 10.3.0.1, podIPs: [{ip: 10.3.0.1}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: by-hand, namespace: %[1]s, labels: {kubernetes.io/service-name: other}}
addressType: IPv4
endpoints: [{addresses: [10.3.0.9], conditions: {ready: true}}]
`, ns)
	c.Apply(t, manifest)
	addresses(t, c, ns, "s", "10.3.0.1")
	addresses(t, c, ns, "other", "10.3.0.9")

	c.Apply(t, strings.ReplaceAll(manifest, `status: "True"`, `status: "False"`))
	addresses(t, c, ns, "s")
	c.Delete(t, manifest)
	c.Delete(t, manifest)
	addresses(t, c, ns, "other")
	if err := c.ApplyObjects(t.Context(), []byte("{apiVersion: v1, kind: Pod, metadata: {name: x}}")); err == nil {
		t.Error("a pod without a namespace was applied")
	}
}

func TestApplyServesIstiosKindsAtOnce(t *testing.T) {
	ns := shared.Namespace(t, "istio")
	c := shared.Cluster("b")
	path, err := parts.IstioCRDs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	crds, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(crds))
	c.Apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: se, namespace: %s}
spec: {hosts: [a.example], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.4.0.1}]}
status: {observedGeneration: "7"}
`, ns))
	got, err := c.Dynamic().Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"}).
		Namespace(ns).Get(t.Context(), "se", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status, ok := got.Object["status"].(map[string]any); !ok || fmt.Sprint(status["observedGeneration"]) != "7" {
		t.Errorf("status = %v, want what was applied", got.Object["status"])
	}
}

// clientOf makes a client from what a remote secret of the cluster holds.
func clientOf(t *testing.T, c *Cluster, token string) kubernetes.Interface {
	t.Helper()
	secret := c.RemoteSecretFor("istio-system", token)
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[c.ID])
	if err != nil {
		t.Fatal(err)
	}
	if config.Insecure || len(config.CAData) == 0 {
		t.Errorf("the kubeconfig does not verify the server: %+v", config)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestRemoteSecretOpensTheCluster(t *testing.T) {
	c := shared.Cluster("b")
	ns := shared.Namespace(t, "remote")
	secret := c.RemoteSecret(ns)
	if secret.Name != "istio-remote-secret-b" || secret.Labels["istio/multiCluster"] != "true" {
		t.Errorf("secret = %+v", secret.ObjectMeta)
	}
	if file, err := os.ReadFile(c.KubeconfigFile()); err != nil || !bytes.Equal(file, secret.Data["b"]) {
		t.Errorf("the secret differs from the kubeconfig file (%v)", err)
	}
	shared.Cluster("a").CreateSecret(t, secret)
	if _, err := clientOf(t, c, admin.Token).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func TestOtherTokensMayDoWhatTheirGroupsMay(t *testing.T) {
	ns := shared.Namespace(t, "rbac")
	c := shared.Cluster("a")
	reader := clientOf(t, c, "reader-token")
	list := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(reader); !apierrors.IsForbidden(err) {
		t.Errorf("before RBAC: %v, want forbidden", err)
	}
	if err := list(clientOf(t, c, "nobody's")); !apierrors.IsUnauthorized(err) {
		t.Errorf("with an unknown token: %v, want unauthorized", err)
	}
	token := c.CreateServiceAccount(t, ns, "tributary")
	rules := fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lab-services}
rules: [{apiGroups: [""], resources: [services], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab-services}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lab-services}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: people}
- {kind: ServiceAccount, name: tributary, namespace: %s}
`, ns)
	c.Apply(t, rules)
	for name, client := range map[string]kubernetes.Interface{"group": reader, "service account": clientOf(t, c, token)} {
		tb.Eventually(t, 10*time.Second, name+" to be allowed", func(context.Context) error { return list(client) })
	}
	c.Delete(t, rules)
	tb.Eventually(t, 10*time.Second, "the group to be forbidden again", func(context.Context) error {
		if err := list(reader); !apierrors.IsForbidden(err) {
			return fmt.Errorf("listing gives %v", err)
		}
		return nil
	})
}

// The tests below disturb an API server, each one of its own.

func TestAStoppedAPIServerComesBackAsItWas(t *testing.T) {
	c, err := shared.AddCluster(t.Context(), "restarted")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.AddCluster(t.Context(), "restarted"); err == nil {
		t.Error("an id was given twice")
	}
	before := c.Kubeconfig()
	c.CreateNamespace(t, "kept")
	list := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.Client().CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
		return err
	}
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := list(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused API server answered: %v", err)
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	tb.Eventually(t, 10*time.Second, "the resumed API server to answer", list)
	if err := c.Start(t.Context()); err == nil {
		t.Error("a running API server was started again")
	}

	if err := c.StopControllers(); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if err := list(t.Context()); err == nil {
		t.Error("a stopped API server answered")
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := list(t.Context()); err != nil {
		t.Errorf("after Stop and Start: %v", err)
	}
	if !bytes.Equal(before, c.Kubeconfig()) {
		t.Error("the kubeconfig changed")
	}
	c.Kill()
	if err := list(t.Context()); err == nil {
		t.Error("a killed API server answered")
	}
	if err := shared.RemoveCluster(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if n := len(shared.Clusters()); n != 2 {
		t.Errorf("%d clusters are left, want 2", n)
	}
	if n, err := keys(t.Context(), shared, "/restarted/"); err != nil || n != 0 {
		t.Errorf("%d keys of the removed cluster are left (%v)", n, err)
	}
	if n, err := keys(t.Context(), shared, "/a/"); err != nil || n == 0 {
		t.Errorf("%d keys of another cluster are left (%v), want many", n, err)
	}
}

// keys counts the keys with a prefix in the lab's etcd.
func keys(ctx context.Context, l *Lab, prefix string) (int64, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Etcd()}, Logger: zap.NewNop()})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	response, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return response.Count, nil
}

func TestAStartThatFailsSaysWhy(t *testing.T) {
	_, err := New(t.Context(), Options{Clusters: []string{"x"}, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("New = %v, want the end of the API server's log", err)
	}
}
