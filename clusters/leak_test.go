package clusters_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/clusters"
	"tributary/model"
	"tributary/test/fakeapi"
	"tributary/test/tb"
)

var soak = flag.Duration("soak", soakFromEnv(), "how long TestSoakClusters runs; TRIBUTARY_SOAK sets the default")

func soakFromEnv() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("TRIBUTARY_SOAK"))
	return d
}

// TestClustersLeaveNothing is the short form of TestSoakClusters.
func TestClustersLeaveNothing(t *testing.T) { clustersLeaveNothing(t, 60, 0) }

// TestSoakClusters rotates, removes, adds and undoes 1,000 times at least.
func TestSoakClusters(t *testing.T) {
	if *soak == 0 {
		t.Skip("set -soak=10m or TRIBUTARY_SOAK=10m")
	}
	clustersLeaveNothing(t, 1000, *soak)
}

// clustersLeaveNothing lets a cluster rotate, go, and come back, over real
// connections. Afterwards there are as many goroutines and connections as one
// cluster needs, and none of it once it is gone.
func clustersLeaveNothing(t *testing.T, cycles int, least time.Duration) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("cycles", func(t *testing.T) { cycle(t, cycles, least) }) // whose server ends before
}

func cycle(t *testing.T, cycles int, least time.Duration) {
	ca := newAuthority(t)
	var open atomic.Int64
	ca.connections = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	server := ca.serve("127.0.0.1", time.Now().Add(24*time.Hour), empty)
	api := fakeapi.New()
	registry := prometheus.NewRegistry()
	manager, err := clusters.New(clusters.Options{
		ClusterID: "config", Secrets: api.Client(t), Metrics: registry, Logger: slog.New(slog.DiscardHandler), NewRunner: watcherOf,
		UndoWindow: 2 * time.Millisecond, // removals go through all steps
	})
	if err != nil {
		t.Fatal(err)
	}
	// The core: what it has heard in which epoch, and what was removed.
	whole, removed, ends := make(chan uint64, 1000), make(chan uint64, 1000), map[uint64]int{}
	batches := make(chan model.Batch)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case b := <-batches:
				switch {
				case b.Removed:
					removed <- b.Epoch
				case b.SnapshotEnd:
					if ends[b.Epoch]++; ends[b.Epoch] == int(model.Kinds) {
						delete(ends, b.Epoch)
						manager.Synced(model.Synced{Source: b.Source, Epoch: b.Epoch})
						whole <- b.Epoch
					}
				}
			}
		}
	}()
	ended := make(chan error, 1)
	go func() {
		ended <- manager.Run(ctx, func(ctx context.Context, b model.Batch) error {
			select {
			case batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	await := func(what string, told <-chan uint64) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not happen; clusters: %+v", what, manager.List())
		}
	}
	token := 0
	put := func() {
		token++
		kubeconfig := kubeconfigOf("server: '"+server+"', certificate-authority-data: "+ca.pem, fmt.Sprint("token: t", token))
		api.Put("secrets", &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "s", Labels: map[string]string{"istio/multiCluster": "true"}},
			Data:       map[string][]byte{"east": []byte(kubeconfig)},
		})
	}
	remove := func() {
		api.Delete("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "s"}})
	}
	// settled waits until one run is left, and tells what it needs.
	settled := func() (goroutines int) {
		t.Helper()
		tb.Eventually(t, 20*time.Second, "one connection", func(context.Context) error {
			if n := open.Load(); n != 1 {
				return fmt.Errorf("%d connections", n)
			}
			return nil
		})
		time.Sleep(100 * time.Millisecond) // what is on its way out
		return runtime.NumGoroutine()
	}
	put()
	await("the first sync", whole)
	goroutines := settled()
	rnd := rand.New(rand.NewPCG(1, 2))
	rotations, removals, undone := 0, 0, 0
	for start := time.Now(); rotations+removals+undone < cycles || time.Since(start) < least; {
		switch rnd.IntN(4) {
		case 0:
			removals++
			remove()
			await("a removal", removed)
			put()
			await("a sync after a removal", whole)
		case 1: // in the window, in the steps or after them
			undone++
			remove()
			time.Sleep(time.Duration(rnd.IntN(12)) * time.Millisecond)
			put()
			await("a sync after a removal that was undone", whole)
			for len(removed) > 0 {
				<-removed
			}
		default:
			rotations++
			put()
			await("a rotation", whole)
		}
	}
	if n := settled(); n > goroutines+3 {
		t.Errorf("%d goroutines after %d rotations, %d removals and %d undone, %d before", n, rotations, removals, undone, goroutines)
	}
	remove()
	await("the last removal", removed)
	tb.Eventually(t, 20*time.Second, "everything of it to be gone", func(context.Context) error {
		if n := open.Load(); n != 0 {
			return fmt.Errorf("%d connections", n)
		}
		if l := manager.List(); len(l) != 0 {
			return fmt.Errorf("clusters %+v", l)
		}
		if page := metricsOf(registry); strings.Contains(page, "east") {
			return fmt.Errorf("series of it: %s", page)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%d rotations, %d removals, %d undone", rotations, removals, undone)
}
