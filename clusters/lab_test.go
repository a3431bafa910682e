package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/clusters"
	"tributary/clusters/kube"
	"tributary/model"
	"tributary/test/lab"
	"tributary/test/tb"
)

// core plays the core in the simplest way: it keeps the names of the rows of
// the newest epoch of each cluster, as "c/kind/ns/name".
type core struct {
	manager *clusters.Manager

	mu   sync.Mutex
	rows map[string]bool
	ends map[string]int
}

func (c *core) out(_ context.Context, b model.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	prefix := string(b.Source.Cluster) + "/"
	if b.Removed {
		for r := range c.rows {
			if strings.HasPrefix(r, prefix) {
				delete(c.rows, r)
			}
		}
		return nil
	}
	prefix += b.Kind.String() + "/"
	for _, s := range b.Services {
		c.rows[prefix+s.Key.Namespace+"/"+s.Name] = true
	}
	for _, s := range b.Slices {
		c.rows[fmt.Sprintf("%s%s %d", prefix, s.Object, len(s.Endpoints))] = true
	}
	for _, w := range b.Workloads {
		c.rows[prefix+w.Identity.Namespace+"/"+w.Name] = true
	}
	for _, n := range b.Deletes {
		delete(c.rows, prefix+n.String())
	}
	if b.SnapshotEnd {
		epoch := fmt.Sprint(b.Source.Cluster, b.Epoch)
		if c.ends[epoch]++; c.ends[epoch] == int(model.Kinds) {
			c.manager.Synced(model.Synced{Source: b.Source, Epoch: b.Epoch})
		}
	}
	return nil
}

func (c *core) list(prefix string) (rows []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.rows {
		if strings.HasPrefix(r, prefix) {
			rows = append(rows, r)
		}
	}
	slices.Sort(rows)
	return rows
}

const objects = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}]
`

// Clusters with real API servers.
func TestRealClusters(t *testing.T) {
	if testing.Short() {
		t.Skip("starts API servers")
	}
	l := lab.StartWith(t, lab.Options{
		Clusters: []string{"config", "east"},
		Tokens:   []lab.Token{{Token: "powerless-token", User: "powerless"}},
	})
	config, east := l.Cluster("config"), l.Cluster("east")
	config.CreateNamespace(t, "istio-system")
	east.CreateNamespace(t, "shop")
	t.Run("life", func(t *testing.T) { lifeOfACluster(t, config, east) })
	t.Run("rotation and drain", func(t *testing.T) { rotationAndDrain(t, config, east) })
	t.Run("silence", func(t *testing.T) { silentAPIServer(t, config, east) })
	t.Run("permissions", func(t *testing.T) { leastPermissions(t, config, east) })
}

// lifeOfACluster: a remote cluster is added, its objects arrive, its credential
// is spoiled and repaired, its API server dies and comes back, and it is removed.
func lifeOfACluster(t *testing.T, config, east *lab.Cluster) {
	client, closeAll, err := kube.Dial(config.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	registry := prometheus.NewRegistry()
	manager, err := clusters.New(clusters.Options{
		ClusterID: "config", Config: config.Config(), Secrets: client, Metrics: registry, NewRunner: watcherOf,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &core{manager: manager, rows: map[string]bool{}, ends: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx, c.out) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	becomes := func(want, reason string) {
		t.Helper()
		tb.Eventually(t, 20*time.Second, want, func(context.Context) error {
			var got []string
			reasons := ""
			for _, s := range manager.List() {
				got = append(got, fmt.Sprint(s.ID, " ", s.State, " ", s.Epoch))
				reasons += s.Reason
			}
			if strings.Join(got, ", ") != want || !strings.Contains(reasons, reason) {
				return fmt.Errorf("clusters are %q because of %q", got, reasons)
			}
			return nil
		})
	}
	becomes("config synced 1", "")
	readiness, done := context.WithTimeout(ctx, 20*time.Second) // the secrets may be listed after it
	defer done()
	if err := manager.WaitReady(readiness); err != nil {
		_, waiting := manager.Ready(time.Now())
		t.Errorf("%v, waiting for %v", err, waiting)
	}
	tb.Eventually(t, 10*time.Second, "the API server's own service", func(context.Context) error {
		if r := c.list("config/Service/"); !slices.Equal(r, []string{"config/Service/default/kubernetes"}) {
			return fmt.Errorf("services are %q", r)
		}
		return nil
	})

	config.CreateSecret(t, east.RemoteSecret("istio-system"))
	becomes("config synced 1, east synced 1", "")
	east.Apply(t, objects)
	has := func(want ...string) {
		t.Helper()
		tb.Eventually(t, 10*time.Second, "rows", func(context.Context) error {
			var got []string
			for _, r := range c.list("east/") {
				if strings.Contains(r, "/shop/") {
					got = append(got, r)
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("rows are %q", got)
			}
			return nil
		})
	}
	has("east/EndpointSlice/shop/web-1 2", "east/Pod/shop/web-0", "east/Service/shop/web")

	update := func(token string) {
		t.Helper()
		s := east.RemoteSecretFor("istio-system", token)
		if _, err := config.Client().CoreV1().Secrets("istio-system").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update("no-such-token")
	becomes("config synced 1, east synced 1", "Unauthorized")
	update("powerless-token")
	becomes("config synced 1, east synced 1", `User "powerless" cannot list`)
	good := east.RemoteSecret("istio-system")
	good.Data["east"] = append(good.Data["east"], "\n# another file, the same credential\n"...)
	if _, err := config.Client().CoreV1().Secrets("istio-system").Update(t.Context(), good, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("config synced 1, east synced 4", "")

	// Its API server dies: what is known of it stays. It comes back, and so do
	// changes.
	east.Kill()
	becomes("config synced 1, east synced 4", "refused")
	has("east/EndpointSlice/shop/web-1 2", "east/Pod/shop/web-0", "east/Service/shop/web")
	if err := east.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	east.Delete(t, objects)
	tb.Eventually(t, 30*time.Second, "the objects to go", func(context.Context) error {
		if r := c.list("east/Service/shop/"); len(r) > 0 {
			return errors.New(r[0] + " is still there")
		}
		return nil
	})

	if err := config.Client().CoreV1().Secrets("istio-system").Delete(t.Context(), good.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("config synced 1", "")
	if r := c.list("east/"); len(r) > 0 {
		t.Errorf("of the removed cluster %q is left", r)
	}
}
