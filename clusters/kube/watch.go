package kube

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	kubeclock "k8s.io/utils/clock"

	"tributary/model"
)

// DefaultPageSize is how many objects are asked for at once.
const DefaultPageSize = 500

// WatchConfig says what a Watcher watches and how.
type WatchConfig struct {
	// Source and Epoch stand in every batch.
	Source model.ShardKey
	Epoch  uint64
	// Client reaches the cluster. Close, if set, is called when Run ends.
	Client kubernetes.Interface
	Close  func()

	DomainSuffix string // of hosts; default DefaultDomainSuffix
	PageSize     int64  // default DefaultPageSize
	// ListDeadline is how long a page of a list may take, and WatchIdle how long a
	// watch may bring neither an event nor a bookmark.
	ListDeadline time.Duration // default DefaultListDeadline
	WatchIdle    time.Duration // default DefaultWatchIdle
	// Count, if set, is told of each event of a watch, in Istio's words; from any
	// goroutine.
	Count func(kind, event string)
}

// Watcher turns the objects of one cluster into batches, for one credential.
type Watcher struct {
	config WatchConfig
	health
}

// NewWatcher returns a watcher that does nothing before Run.
func NewWatcher(c WatchConfig) *Watcher {
	if c.PageSize <= 0 {
		c.PageSize = DefaultPageSize
	}
	if c.ListDeadline <= 0 {
		c.ListDeadline = DefaultListDeadline
	}
	if c.WatchIdle <= 0 {
		c.WatchIdle = DefaultWatchIdle
	}
	if c.Count == nil {
		c.Count = func(string, string) {}
	}
	return &Watcher{config: c}
}

// Run watches until ctx ends, then returns nil; or until out fails, then
// returns why. It is called once. When it returns nothing of it runs any more,
// and out will not be called again. An API server that does not answer is no
// reason to end: it is asked again, with back-off, and Health tells of it.
func (w *Watcher) Run(ctx context.Context, out func(context.Context, model.Batch) error) error {
	if w.config.Close != nil {
		defer w.config.Close()
	}
	var calls gate
	defer calls.close()
	group, running := errgroup.WithContext(ctx)
	for _, k := range kindsOf(w.config.Client) {
		f := &feed{
			kind: k.kind, source: w.config.Source, epoch: w.config.Epoch,
			convert: newConverter(w.config.Source, w.config.DomainSuffix),
			health:  &w.health, done: running.Done(), queue: make(chan item, queueLength),
			watchIdle: w.config.WatchIdle, count: w.config.Count,
		}
		lw := &listWatch{feed: f, kind: k, pageSize: w.config.PageSize, gate: &calls, listDeadline: w.config.ListDeadline, watchIdle: w.config.WatchIdle}
		group.Go(func() error {
			w.reflect(running, lw)
			return nil
		})
		group.Go(func() error { return f.send(running, out) })
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("handing over what cluster %s says: %w", w.config.Source.Cluster, err)
	}
	return nil
}

// retry spaces out lists and watches that fail. It starts again from the first
// step once something has worked for resetAfter.
var retry = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 15 * time.Second}

const resetAfter = 30 * time.Second

// reflect lists and watches one kind until ctx ends. The reflector's own loop is
// not used, and its log neither: they repeat each failure as often as it happens
// and quote what was received. What matters of it is in Health.
func (w *Watcher) reflect(ctx context.Context, lw *listWatch) {
	silent := logr.Discard()
	ctx = klog.NewContext(ctx, silent)
	reflector := func() *cache.Reflector {
		backoff := retry
		return cache.NewReflectorWithOptions(lw, lw.kind.example, lw.feed, cache.ReflectorOptions{
			Name: w.config.Source.String(), Logger: &silent, Backoff: &backoff,
		})
	}
	r := reflector()
	_ = retry.DelayWithReset(kubeclock.RealClock{}, resetAfter).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = r.ListAndWatchWithContext(ctx)                       // noted by listWatch, tried again
		for (lw.silent.Load() || lw.again) && ctx.Err() == nil { // at once, as a deadline has passed
			lw.again = false
			r = reflector() // whose back-off begins anew
			_ = r.ListAndWatchWithContext(ctx)
		}
		return false, nil
	})
}

// kindsOf lists the kinds that are watched.
func kindsOf(c kubernetes.Interface) []kind {
	services, endpoints, pods := c.CoreV1().Services(""), c.DiscoveryV1().EndpointSlices(""), c.CoreV1().Pods("")
	nodes, namespaces := c.CoreV1().Nodes(), c.CoreV1().Namespaces()
	return []kind{
		{model.KindService, &corev1.Service{}, lister(services.List), services.Watch},
		{model.KindEndpointSlice, &discoveryv1.EndpointSlice{}, lister(endpoints.List), endpoints.Watch},
		{model.KindPod, &corev1.Pod{}, lister(pods.List), pods.Watch},
		{model.KindNode, &corev1.Node{}, lister(nodes.List), nodes.Watch},
		{model.KindNamespace, &corev1.Namespace{}, lister(namespaces.List), namespaces.Watch},
	}
}

func lister[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}
