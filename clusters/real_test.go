package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"tributary/aggregate"
	"tributary/clusters"
	"tributary/clusters/kube"
	"tributary/model"
	"tributary/shards"
	"tributary/test/lab"
	"tributary/test/tb"
)

// fleet is a manager with the real core behind it, which notes after each Delta
// how many endpoints of the service web are served in each cluster.
type fleet struct {
	manager *clusters.Manager
	store   *shards.Store

	mu     sync.Mutex
	served map[model.ClusterID]int
	counts map[model.ClusterID][]int // of served, each change
	when   map[model.ClusterID][]time.Time
}

// Apply is what the core calls.
func (f *fleet) Apply(d model.Delta) {
	snapshot := f.store.Apply(d)
	served := map[model.ClusterID]int{}
	for svc := range snapshot.Host("web.shop.svc.cluster.local") {
		for c := range svc.Candidates(svc.Definition.Ports[0]) {
			// Two clusters of this test are one: what counts is the shard.
			if c.Endpoint.Flags.Served() {
				served[c.Shard.Cluster]++
			}
		}
	}
	f.mu.Lock()
	for _, id := range []model.ClusterID{"east", "twin"} {
		if served[id] != f.served[id] {
			f.counts[id] = append(f.counts[id], served[id])
			f.when[id] = append(f.when[id], time.Now())
		}
	}
	f.served = served
	f.mu.Unlock()
	for _, s := range d.Synced {
		f.manager.Synced(s)
	}
}

// history returns how many endpoints were served in a cluster, each change.
func (f *fleet) history(id model.ClusterID) (counts []int, when []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.counts[id]), slices.Clone(f.when[id])
}

// startFleet runs a manager and a core until the test ends.
func startFleet(t *testing.T, config *rest.Config, window time.Duration) *fleet {
	t.Helper()
	client, closeAll, err := kube.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	manager, err := clusters.New(clusters.Options{ClusterID: "config", Config: config, Secrets: client, NewRunner: watcherOf, UndoWindow: window})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{manager: manager, store: shards.NewStore(100), counts: map[model.ClusterID][]int{}, when: map[model.ClusterID][]time.Time{}}
	inbox := aggregate.NewInbox(100)
	var core *aggregate.Aggregator
	core = aggregate.New("config", func(source model.ShardKey) aggregate.Registry {
		return kube.NewRegistry(source.Cluster, kube.Rules{}, core.WorkloadEntries)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { core.Run(ctx, inbox, f) })
	running.Go(func() {
		if err := manager.Run(ctx, inbox.Put); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		closeAll()
	})
	return f
}

// is waits until each cluster but the config cluster is in the state that is
// wanted, in an epoch.
func (f *fleet) is(t *testing.T, want ...string) {
	t.Helper()
	tb.Eventually(t, 20*time.Second, strings.Join(want, ", "), func(context.Context) error {
		var got []string
		for _, s := range f.manager.List() {
			if s.ID != "config" {
				got = append(got, fmt.Sprint(s.ID, " ", s.State, " ", s.Epoch))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("clusters are %q", got)
		}
		return nil
	})
}

const four = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}, {addresses: [10.1.0.4]}]
`

// rotationAndDrain: whatever becomes of a credential, no Delta lacks an endpoint
// that is there; a cluster that is no longer wanted leaves in steps.
func rotationAndDrain(t *testing.T, config, east *lab.Cluster) {
	east.Apply(t, four)
	secrets := config.Client().CoreV1().Secrets("istio-system")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "both", Labels: map[string]string{"istio/multiCluster": "true"}}}
	revision := 0
	kubeconfig := func() []byte { // the same cluster, in other words
		revision++
		return fmt.Appendf(east.Kubeconfig(), "\n# %d\n", revision)
	}
	put := func(keys map[string][]byte) {
		t.Helper()
		secret.Data = keys
		_, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		if err != nil {
			_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		east.Delete(t, four)
	}()
	first := kubeconfig()
	put(map[string][]byte{"east": kubeconfig(), "twin": first})
	// untouched fails the test if endpoints of a cluster were missing once they
	// were all there.
	untouched := func(t *testing.T, f *fleet, id model.ClusterID) {
		t.Helper()
		if counts, _ := f.history(id); slices.Index(counts, 4) != len(counts)-1 {
			t.Errorf("endpoints of %s were missing meanwhile: %v", id, counts)
		}
	}
	t.Run("rotation", func(t *testing.T) {
		f := startFleet(t, config.Config(), time.Minute)
		f.is(t, "east synced 1", "twin synced 1")
		f.wait(t, "east", 4)
		f.wait(t, "twin", 4)
		// One key of two rotates again and again, in good ways and in bad ones.
		for epoch := 2; epoch <= 6; epoch++ {
			put(map[string][]byte{"east": kubeconfig(), "twin": first})
			f.is(t, fmt.Sprint("east synced ", epoch), "twin synced 1")
		}
		put(map[string][]byte{"east": east.KubeconfigFor("no-such-token"), "twin": first})
		tb.Eventually(t, 20*time.Second, "the bad credential to be told", func(context.Context) error {
			if s := f.manager.List()[1]; s.State != clusters.Synced || !strings.Contains(s.LastError, "Unauthorized") {
				return fmt.Errorf("east is %v, last error %q", s.State, s.LastError)
			}
			return nil
		})
		put(map[string][]byte{"east": []byte("x: ["), "twin": first})
		put(map[string][]byte{"east": kubeconfig(), "twin": first})
		f.is(t, "east synced 8", "twin synced 1")

		// It is removed and comes back within the window.
		last := secret.Data["east"]
		put(map[string][]byte{"twin": first})
		f.is(t, "east draining 8", "twin synced 1")
		put(map[string][]byte{"east": last, "twin": first})
		f.is(t, "east synced 9", "twin synced 1")
		untouched(t, f, "east")
		untouched(t, f, "twin")
	})
	t.Run("drain", func(t *testing.T) {
		const window = 400 * time.Millisecond // and as long is each step
		f := startFleet(t, config.Config(), window)
		f.is(t, "east synced 1", "twin synced 1")
		f.wait(t, "east", 4)
		f.wait(t, "twin", 4)
		put(map[string][]byte{"twin": first})
		f.is(t, "twin synced 1")
		f.wait(t, "east", 0)
		counts, when := f.history("east")
		i := slices.Index(counts, 4)
		if !slices.Equal(counts[i:], []int{4, 3, 2, 1, 0}) {
			t.Fatalf("it left in these steps: %v", counts[i:])
		}
		for n := i + 2; n < len(counts); n++ {
			if pause := when[n].Sub(when[n-1]); pause < window/2 { // noted by another goroutine
				t.Errorf("only %v between two steps", pause)
			}
		}
		untouched(t, f, "twin")
	})
}

// wait waits until so many endpoints of a cluster are served.
func (f *fleet) wait(t *testing.T, id model.ClusterID, want int) {
	t.Helper()
	tb.Eventually(t, 20*time.Second, fmt.Sprintf("%d endpoints in %s", want, id), func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := f.served[id]; n != want {
			return fmt.Errorf("%d are served", n)
		}
		return nil
	})
}

// leastPermissions: the permissions of examples/rbac are enough, those that may
// be left out may be left out, and secrets of other namespaces are not asked for.
func leastPermissions(t *testing.T, config, east *lab.Cluster) {
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile("../examples/rbac/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	remote := read("remote-cluster.yaml")
	config.Apply(t, remote)
	config.Apply(t, read("config-cluster.yaml"))
	before, optional, found := strings.Cut(remote, "# May be left out.")
	_, after, ends := strings.Cut(optional, "---\n")
	if !found || !ends {
		t.Fatal("the manifest has no part that may be left out")
	}
	east.Apply(t, before+"---\n"+after)
	east.Apply(t, four)

	own := config.Config()
	own.BearerToken = config.CreateServiceAccount(t, "istio-system", "tributary")
	config.CreateNamespace(t, "elsewhere")
	foreign := east.RemoteSecret("elsewhere")
	foreign.Data = map[string][]byte{"foreign": east.Kubeconfig()}
	config.CreateSecret(t, foreign)
	config.CreateSecret(t, east.RemoteSecretFor("istio-system", east.CreateServiceAccount(t, "istio-system", "tributary")))

	f := startFleet(t, own, 0)
	f.is(t, "east synced 1")
	f.wait(t, "east", 4)
	tb.Eventually(t, 20*time.Second, "all kinds to be heard without trouble", func(context.Context) error {
		if ready, waiting := f.manager.Ready(time.Now()); !ready {
			return fmt.Errorf("waiting for %v", waiting)
		}
		var errs []error
		for _, s := range f.manager.List() {
			for _, k := range s.Kinds {
				optional := s.ID == "east" && (k.Kind == "Node" || k.Kind == "Namespace")
				if k.Trouble != "none" || (k.Remark != "") != optional {
					errs = append(errs, fmt.Errorf("%s of %s: %s, %q, %q", k.Kind, s.ID, k.Trouble, k.LastError, k.Remark))
				}
			}
		}
		return errors.Join(errs...)
	})
	f.is(t, "east synced 1")
}
