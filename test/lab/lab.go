package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tributary/test/parts"
	"tributary/test/tb"
)

// startTimeout bounds the start of one process; it is long because others may
// use the same cores.
const startTimeout = 2 * time.Minute

// Options says which lab to run.
type Options struct {
	// Clusters are the ids of the clusters to start with.
	Clusters []string
	// Controllers runs a controller manager in each cluster.
	Controllers bool
	// Tokens are accepted by every cluster, besides the admin's.
	Tokens []Token
	// APIServerArgs are added to the flags of each API server.
	APIServerArgs []string
	// Dir gets all data and logs, and is removed by Close; a temporary folder
	// if empty.
	Dir string
	// Log takes lines about steps that take long; nil is silent.
	Log parts.Log
}

// Lab is a set of running clusters.
type Lab struct {
	// Set once.
	options   Options
	dir       string
	apiserver string // path of the binary
	etcd      *etcd

	mu       sync.Mutex // guards what follows
	clusters []*Cluster // in the order of adding, with those that start
	numbers  int        // given to clusters so far
	closed   bool
}

// Start runs a lab with controllers in each cluster until the test ends.
func Start(t tb.T, ids ...string) *Lab {
	t.Helper()
	return StartWith(t, Options{Clusters: ids, Controllers: true})
}

// StartWith is Start with options.
func StartWith(t tb.T, options Options) *Lab {
	t.Helper()
	if options.Log == nil {
		// Not Logf, which shows a line only when the test is over.
		options.Log = func(line string) { fmt.Fprintln(os.Stderr, "lab:", line) }
	}
	l, err := New(t.Context(), options)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return l
}

// New runs a lab until Close. ctx bounds only the start.
func New(ctx context.Context, options Options) (*Lab, error) {
	l, err := start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("starting the lab: %w", err)
	}
	return l, nil
}

func start(ctx context.Context, options Options) (_ *Lab, err error) {
	l := &Lab{options: options}
	if l.apiserver, err = parts.KubeAPIServer(ctx, options.Log); err != nil {
		return nil, err
	}
	if l.dir = options.Dir; l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "tributary-lab-"); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	if l.etcd, err = startEtcd(ctx, filepath.Join(l.dir, "etcd")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, id := range options.Clusters {
		c, err := l.register(id) // here, so that they keep their order
		if err != nil {
			return nil, errors.Join(err, group.Wait(), l.Close())
		}
		group.Go(func() error { return c.bringUp(ctx) })
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// AddCluster starts one more cluster.
func (l *Lab) AddCluster(ctx context.Context, id string) (*Cluster, error) {
	c, err := l.register(id)
	if err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// RemoveCluster ends a cluster at once and forgets it with all its data. Its id
// may be used again, for a new cluster.
func (l *Lab) RemoveCluster(ctx context.Context, c *Cluster) error {
	c.end()
	err := errors.Join(l.etcd.forget(ctx, "/"+c.ID+"/"), os.RemoveAll(c.dir))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clusters = slices.DeleteFunc(l.clusters, func(other *Cluster) bool { return other == c })
	if err != nil {
		return fmt.Errorf("removing cluster %s: %w", c.ID, err)
	}
	return nil
}

// register gives a new cluster its place. One whose start fails keeps it, so
// that Close ends whatever of it runs.
func (l *Lab) register(id string) (*Cluster, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, fmt.Errorf("adding cluster %s: the lab is closed", id)
	case slices.ContainsFunc(l.clusters, func(c *Cluster) bool { return c.ID == id }):
		return nil, fmt.Errorf("adding cluster %s: there is one with this id", id)
	case l.numbers == maxClusters:
		return nil, fmt.Errorf("adding cluster %s: there were %d, and no addresses for more", id, maxClusters)
	}
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("adding cluster %s: %w", id, err)
	}
	c := &Cluster{ID: id, lab: l, dir: filepath.Join(l.dir, id), port: port, number: l.numbers}
	l.numbers++
	l.clusters = append(l.clusters, c)
	return c, nil
}

// Cluster returns the cluster with the given id; it panics if there is none.
func (l *Lab) Cluster(id string) *Cluster {
	for _, c := range l.Clusters() {
		if c.ID == id {
			return c
		}
	}
	panic("lab: no cluster " + id)
}

// Clusters returns all clusters whose start succeeded, in the order in which
// they were added.
func (l *Lab) Clusters() []*Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.clusters), func(c *Cluster) bool { return !c.added })
}

// Etcd returns the client URL of the lab's etcd. The clusters' keys lie under
// their ids; others may use keys elsewhere.
func (l *Lab) Etcd() string { return l.etcd.url }

// Close ends the lab: in each cluster the controller manager first, then the
// API server, and etcd last, without which an API server takes minutes to end.
// All are killed: their data goes with them. A second call does nothing. No
// AddCluster may be under way.
func (l *Lab) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	clusters := slices.Clone(l.clusters)
	l.mu.Unlock()
	if closed {
		return nil
	}
	for _, c := range clusters {
		c.end()
	}
	l.etcd.close()
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("closing the lab: %w", err)
	}
	return nil
}
