package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcd is the store of all clusters, inside our process.
type etcd struct {
	server *embed.Etcd
	url    string // for clients
}

// startEtcd starts an etcd with its data in a folder, and waits until it
// serves. Nothing is synced to disk: a lab does not outlive its machine.
func startEtcd(ctx context.Context, dir string) (*etcd, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	// Port 0 in both: the kernel picks, and no peer ever calls.
	anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config := embed.NewConfig()
	config.Name = "lab"
	config.Dir = filepath.Join(dir, "data")
	config.ListenClientUrls, config.AdvertiseClientUrls = anywhere, anywhere
	config.ListenPeerUrls, config.AdvertisePeerUrls = anywhere, anywhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	config.QuotaBackendBytes = 8 << 30
	config.LogLevel = "error"
	config.LogOutputs = []string{filepath.Join(dir, "log")}

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-server.Server.ReadyNotify():
		return &etcd{server: server, url: "http://" + server.Clients[0].Addr().String()}, nil
	case err = <-server.Err():
	case <-timeout.C:
		err = errors.New("not ready in time")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	server.Close()
	return nil, fmt.Errorf("starting etcd: %w", err)
}

// forget deletes all keys that start with prefix.
func (e *etcd) forget(ctx context.Context, prefix string) error {
	end := []byte(prefix)
	end[len(end)-1]++ // the first key after those
	_, err := e.server.Server.DeleteRange(ctx, &etcdserverpb.DeleteRangeRequest{Key: []byte(prefix), RangeEnd: end})
	if err != nil {
		return fmt.Errorf("deleting %s from etcd: %w", prefix, err)
	}
	return nil
}

func (e *etcd) close() { e.server.Close() }
