package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"tributary/aggregate"
	"tributary/clusters"
	"tributary/clusters/kube"
	"tributary/debug"
	"tributary/model"
	"tributary/push"
	"tributary/shards"
	"tributary/xds"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Watch the clusters and serve them as xDS",
		Example: `  tributary serve --kubeconfig ~/.kube/config --cluster-id main
  tributary serve --fleet examples/fleet`,
		Args: cobra.NoArgs,
	}
	load := configFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		return serve(cmd.Context(), c, newLogger(c.Log, cmd.ErrOrStderr()))
	}
	return cmd
}

// serve builds the parts in the order of the data's path, from the clusters to
// the streams, and runs them until ctx ends or one of them fails.
func serve(ctx context.Context, c Config, log *slog.Logger) error {
	lock, err := lockDataDir(c.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	xdsListener, err := listen(c.XDS.Address, "xDS", "--xds-address (xds.address)")
	if err != nil {
		return err
	}
	defer xdsListener.Close()
	httpListener, err := listen(c.HTTP.Address, "HTTP", "--http-address (http.address)")
	if err != nil {
		return err
	}
	defer httpListener.Close()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	inbox := aggregate.NewInbox(inboxRows)
	store := shards.NewStore(shards.DefaultTombstones)
	pusher := push.NewPusher(time.Duration(c.Push.DebounceAfter), time.Duration(c.Push.DebounceMax), push.NewMetrics(registry))
	var pages *debug.Server
	server := xds.NewServer(xds.Options{
		Source: pusher, Limits: c.limits(), Identity: debug.Identifier(instance(), version), Metrics: xds.NewMetrics(registry), Log: log,
		Debug: func(ctx context.Context, url string, names []string) ([]xds.DebugResource, error) {
			return pages.XDS(ctx, url, names)
		},
	})
	manager, err := newManager(c, log, registry)
	if err != nil {
		return err
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	var core *aggregate.Aggregator
	core = aggregate.New(model.ClusterID(c.ClusterID), func(source model.ShardKey) aggregate.Registry {
		return kube.NewRegistry(source.Cluster, rules, core.WorkloadEntries)
	})
	pages = debug.New(debug.Sources{
		Snapshot: pusher.Released, Wake: pusher.Subscribe, Clusters: manager.List, Ready: manager.Ready, Proxies: server.Proxies,
		Holders: server.Holders, Dump: server.Dump, ConfigCluster: model.ClusterID(c.ClusterID), MoveHold: kube.MoveHold,
		Inbox: inbox.Waiting, Registry: registry, Version: version, Address: c.HTTP.Address,
	})

	log.Info("serving", "version", version, "xds", xdsListener.Addr(), "http", "http://"+httpListener.Addr().String(), "data", c.DataDir)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return manager.Run(ctx, inbox.Put) })
	group.Go(func() error { core.Run(ctx, inbox, publisher{store, pusher, manager}); return nil })
	group.Go(func() error { pusher.Run(ctx); return nil })
	group.Go(func() error { return server.Serve(ctx, xdsListener) })
	group.Go(func() error { return pages.Serve(ctx, httpListener) })
	group.Go(func() error { openWhenReady(ctx, manager, store, pusher, server, log); return nil })
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	log.Info("stopped")
	return err
}

// instance names this process among others that serve the same: its pod, or its
// host.
func instance() string {
	host, err := os.Hostname() // of a container it is the pod's name
	if err != nil {
		return "tributary"
	}
	return host
}

// inboxRows bounds the rows that one source may have waiting for the core.
const inboxRows = 256

// publisher is the core's sink: it publishes a delta and tells those who wait.
type publisher struct {
	store   *shards.Store
	pusher  *push.Pusher
	manager *clusters.Manager
}

// Apply implements aggregate.Sink.
func (p publisher) Apply(d model.Delta) {
	snapshot := p.store.Apply(d)
	p.pusher.Offer(snapshot, len(d.Services), d.Received)
	for _, s := range d.Synced {
		p.manager.Synced(s)
	}
}

// openWhenReady lets the server answer once every cluster was heard or given
// up, and what was heard until then is released.
func openWhenReady(ctx context.Context, manager *clusters.Manager, store *shards.Store, pusher *push.Pusher, server *xds.Server, log *slog.Logger) {
	start := time.Now()
	if manager.WaitReady(ctx) != nil {
		return // we end
	}
	complete := store.Load()
	wake, cancel := pusher.Subscribe()
	defer cancel()
	pusher.Offer(complete, 0, time.Time{})
	for {
		if r := pusher.Released(); r != nil && r.Revision >= complete.Revision {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
	server.Open()
	log.Info("ready", "services", complete.Len(), "after", time.Since(start).Round(time.Millisecond))
}

func newManager(c Config, log *slog.Logger, metrics prometheus.Registerer) (*clusters.Manager, error) {
	o := clusters.Options{
		ClusterID: model.ClusterID(c.ClusterID), SecretNamespace: c.SecretNamespace, AllowInsecure: c.AllowInsecureKubeconfig,
		SyncTimeout: time.Duration(c.SyncTimeout), UndoWindow: time.Duration(c.ClusterUndoWindow), Logger: log, Metrics: metrics,
		NewRunner: func(s clusters.Spec) (clusters.Runner, error) { return newRunner(s, &c, log) },
		NewProber: func(s clusters.Spec) (clusters.Prober, error) { return kube.NewProber(s.Config) },
		Liveness:  c.liveness(),
	}
	var err error
	if o.KubeconfigDir, err = directory(c.KubeconfigDir, "--kubeconfig-dir"); err != nil {
		return nil, err
	}
	if o.Fleet, err = directory(c.Fleet, "--fleet"); err != nil {
		return nil, err
	}
	if c.Fleet != "" {
		return clusters.New(o)
	}
	config, err := clusters.LoadKubeconfig(c.Kubeconfig)
	if errors.Is(err, rest.ErrNotInCluster) && c.KubeconfigDir != "" {
		return clusters.New(o) // they are all clusters there are
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the config cluster %s (--kubeconfig; or --kubeconfig-dir or --fleet, which need none): %w", c.ClusterID, err)
	}
	secrets, _, err := kube.Dial(rest.CopyConfig(config))
	if err != nil {
		return nil, fmt.Errorf("connecting to the config cluster %s: %w", c.ClusterID, err)
	}
	o.Config, o.Secrets = config, secrets
	return clusters.New(o)
}

// directory checks a setting that names a directory; "" names none.
func directory(dir, setting string) (string, error) {
	if dir == "" {
		return "", nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolving the directory %s (%s): %w", dir, setting, err)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory (%s)", dir, setting)
	}
	return path, nil
}

// newRunner makes the source of one cluster.
func newRunner(s clusters.Spec, c *Config, log *slog.Logger) (clusters.Runner, error) {
	if s.Config == nil {
		return kube.NewManifests(kube.ManifestsConfig{Source: s.Source, Epoch: s.Epoch, Dir: s.Dir, DomainSuffix: c.DomainSuffix, Logger: log}), nil
	}
	client, closeAll, err := kube.Dial(rest.CopyConfig(s.Config))
	if err != nil {
		return nil, err
	}
	return kube.NewWatcher(kube.WatchConfig{
		Source: s.Source, Epoch: s.Epoch, Client: client, Close: closeAll, DomainSuffix: c.DomainSuffix,
		ListDeadline: time.Duration(c.Liveness.ListDeadline), WatchIdle: time.Duration(c.Liveness.WatchIdle), Count: s.Count,
	}), nil
}

// listen opens a listener; what is in the way is told together with the setting
// that moves it.
func listen(address, what, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the %s address %s is in use by another process: set another one with %s", what, address, setting)
	case err != nil:
		return nil, fmt.Errorf("listening for %s on %s (%s): %w", what, address, setting, errors.Unwrap(err))
	}
	return l, nil
}
