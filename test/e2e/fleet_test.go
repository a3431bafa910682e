package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/test/backend"
	"tributary/test/envoy"
	"tributary/test/lab"
	"tributary/test/netns"
	"tributary/test/tb"
)

const systemNamespace = "istio-system"

// offer makes the service cart in namespace shop of a cluster with one pod,
// whose backend answers with the cluster's ID.
func offer(t *testing.T, c *lab.Cluster, ip string) *backend.Backend {
	t.Helper()
	if err := netns.AddAddress(ip); err != nil {
		t.Fatal(err)
	}
	b := backend.Start(t, ip+":8080", c.ID)
	labels := map[string]string{"app": "cart"}
	c.CreateNamespace(t, "shop")
	c.CreateNode(t, "node-1", c.ID+"-region", c.ID+"-zone")
	c.CreateService(t, "shop", "cart", labels, lab.Port("http", 8080))
	c.CreateReadyPod(t, "shop", "cart-"+c.ID, ip, labels, "node-1")
	return b
}

// TestFleet is the first path on real parts: clusters come and go while two
// Envoys, one with delta and one with the state of the world, carry requests to
// all of them, and Tributary itself is killed and started again.
func TestFleet(t *testing.T) {
	l := lab.Start(t, "east", "west")
	east, west := l.Cluster("east"), l.Cluster("west")
	east.CreateNamespace(t, systemNamespace)
	offer(t, east, "10.1.0.1")
	offer(t, west, "10.2.0.1")
	east.CreateSecret(t, west.RemoteSecret(systemNamespace))

	dir := t.TempDir()
	files := filepath.Join(dir, "kubeconfigs")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	args := append(configCluster(east), "--kubeconfig-dir", files, "--cluster-undo-window", "1s")
	s := startServer(t, dir, args...)
	s.waitReady(t, 30*time.Second)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("tributary:\n%s", s.Tail(50))
		}
	})

	delta := startProxy(t, "delta", false, 15080)
	sotw := startProxy(t, "sotw", true, 15081)
	proxies := []*proxy{delta, sotw}
	all := func(what string, want ...string) {
		t.Helper()
		for _, p := range proxies {
			p.traffic.waitAnswers(t, 20*time.Second, want...)
			p.traffic.noFailures(t, what)
		}
	}
	all("at the start", "east", "west")

	// A third cluster joins while requests flow, by a file.
	north, err := l.AddCluster(t.Context(), "north")
	if err != nil {
		t.Fatal(err)
	}
	offer(t, north, "10.3.0.1")
	if err := os.WriteFile(filepath.Join(files, "north.yaml"), north.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	all("while north joined", "east", "north", "west")

	// The second one leaves: its backend lives on, but gets nothing more. A moment
	// before, it left by mistake.
	deleteSecret(t, east, west.RemoteSecret(systemNamespace).Name)
	east.CreateSecret(t, west.RemoteSecret(systemNamespace))
	all("while the removal of west was undone", "east", "north", "west")
	deleteSecret(t, east, west.RemoteSecret(systemNamespace).Name)
	all("while west left", "east", "north")
	gone(t, "west")

	// A pod that leaves its cluster takes no request with it.
	north.SetPodReady(t, "shop", "cart-north", false)
	all("while north's pod became unready", "east")
	north.SetPodReady(t, "shop", "cart-north", true)
	all("while north's pod became ready", "east", "north")

	// Tributary dies and comes back: nothing that still exists is ever lost.
	for _, p := range proxies {
		p.watchHosts(t, "10.1.0.1:8080", "10.3.0.1:8080")
	}
	s.Kill()
	<-s.Done()
	if err := netns.AddAddress("10.1.0.2"); err != nil {
		t.Fatal(err)
	}
	backend.Start(t, "10.1.0.2:8080", "east-2")
	east.CreateReadyPod(t, "shop", "cart-east-2", "10.1.0.2", map[string]string{"app": "cart"}, "node-1")
	all("while tributary was dead", "east", "north")
	s = startServer(t, dir, args...)
	s.waitReady(t, 30*time.Second)
	all("while tributary came back", "east", "east-2", "north")
	for _, p := range proxies {
		p.hostsKept(t)
		p.accepted(t)
	}
}

// gone waits until nothing that the server shows tells of a cluster.
func gone(t *testing.T, id string) {
	t.Helper()
	for _, page := range []string{"/metrics", "/api/v1/clusters", "/debug/clusterz", "/debug/registryz", "/debug/endpointShardz"} {
		tb.Eventually(t, 10*time.Second, page+" to be without cluster "+id, func(ctx context.Context) error {
			_, body, err := fetch(ctx, "http://"+httpAddress+page)
			if i := strings.Index(body, `"`+id+`"`); err == nil && i >= 0 {
				err = fmt.Errorf("%s", body[max(0, i-200):min(len(body), i+200)])
			}
			return err
		})
	}
}

func deleteSecret(t *testing.T, c *lab.Cluster, name string) {
	t.Helper()
	if err := c.Client().CoreV1().Secrets(systemNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting secret %s: %v", name, err)
	}
}

// proxy is an Envoy with traffic through it.
type proxy struct {
	*envoy.Envoy
	name    string
	traffic *traffic

	mu   sync.Mutex
	lost []string
	end  func()
}

const cartCluster = "outbound|8080||cart.shop.svc.cluster.local"

func startProxy(t *testing.T, name string, sotw bool, port int) *proxy {
	t.Helper()
	e := envoy.Start(t, envoy.ADS{
		Server: xdsAddress, SotW: sotw, Name: name, Namespace: "shop",
		Metadata: map[string]any{"CLUSTER_ID": "east", "HTTP_PROXY_PORT": port},
	}.Bootstrap())
	e.WaitHosts(t, 20*time.Second, cartCluster, "10.1.0.1:8080", "10.2.0.1:8080")
	e.WaitFor(t, 20*time.Second, "the listener and its routes", func(ctx context.Context) error {
		d, err := e.ConfigDump(ctx)
		if err == nil && len(d.Routes) == 0 {
			err = fmt.Errorf("there are no routes yet")
		}
		return err
	})
	return &proxy{Envoy: e, name: name, traffic: startTraffic(t, name, fmt.Sprintf("127.0.0.1:%d", port), "cart")}
}

// watchHosts looks at the proxy's hosts all the time and remembers when one of
// those that must stay is missing.
func (p *proxy) watchHosts(t *testing.T, keep ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.end = func() { cancel(); <-done }
	t.Cleanup(p.end)
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			clusters, err := p.Clusters(ctx)
			if err != nil {
				continue
			}
			var have []string
			for _, h := range clusters[cartCluster] {
				have = append(have, h.Address)
			}
			for _, k := range keep {
				if !slices.Contains(have, k) {
					p.mu.Lock()
					p.lost = append(p.lost, fmt.Sprintf("%s was missing at %s, hosts were %v", k, time.Now().Format("15:04:05.000"), have))
					p.mu.Unlock()
				}
			}
		}
	}()
}

func (p *proxy) hostsKept(t *testing.T) {
	t.Helper()
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lost) > 0 {
		t.Errorf("%s lost endpoints that exist:\n%s", p.name, strings.Join(p.lost[:min(5, len(p.lost))], "\n"))
	}
}

// accepted fails the test if the proxy refused anything, or has a cluster that
// still warms.
func (p *proxy) accepted(t *testing.T) {
	t.Helper()
	for _, prefix := range []string{"cluster_manager", "listener_manager", "cluster.outbound", "http.outbound_http_proxy"} {
		stats, err := p.Stats(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range stats {
			if strings.HasSuffix(name, "update_rejected") && v > 0 {
				t.Errorf("%s: %s = %d", p.name, name, v)
			}
		}
	}
	d, err := p.ConfigDump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Warming) > 0 || len(d.Errors) > 0 {
		t.Errorf("%s: %d clusters still warm; errors: %v", p.name, len(d.Warming), d.Errors)
	}
}

var _ tb.T = (*testing.T)(nil)
