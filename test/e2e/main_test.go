package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/test/lab"
	"tributary/test/netns"
	"tributary/test/parts"
	"tributary/test/proc"
	"tributary/test/tb"
)

// binary is the tributary program under test.
var binary string

func TestMain(m *testing.M) {
	log := func(line string) { fmt.Fprintln(os.Stderr, "e2e:", line) }
	ctx := context.Background()
	if !netns.Inside() { // inside there is no network to fetch anything from
		for _, fetch := range []func(context.Context, parts.Log) (string, error){parts.KubeAPIServer, parts.KubeControllerManager, parts.Envoy, parts.Istioctl, istiodBinary} {
			if _, err := fetch(ctx, log); err != nil {
				log(err.Error())
				os.Exit(1)
			}
		}
	}
	var err error
	if binary, err = parts.Tributary(ctx, log); err != nil {
		log(err.Error())
		os.Exit(1)
	}
	netns.Enter()
	goleak.VerifyTestMain(m)
}

// istiodBinary returns the path of pilot-discovery; its CRDs lie beside it.
func istiodBinary(ctx context.Context, log parts.Log) (string, error) {
	path, _, err := parts.Istiod(ctx, log)
	return path, err
}

const (
	xdsAddress  = "127.0.0.1:15010"
	httpAddress = "127.0.0.1:15014"
)

// server is a running tributary.
type server struct {
	*proc.Process
	log string // file
}

// startServer runs tributary until the test ends and returns at once.
func startServer(t tb.T, dir string, args ...string) *server {
	t.Helper()
	log := filepath.Join(dir, "tributary.log")
	p, err := proc.Start(proc.Options{Path: binary, LogFile: log, Args: append([]string{"serve", "--data-dir", filepath.Join(dir, "data")}, args...)})
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := &server{p, log}
	t.Cleanup(func() {
		if err := s.Stop(20 * time.Second); err != nil {
			t.Logf("%v", err)
		}
	})
	return s
}

// waitReady waits until the server is ready.
func (s *server) waitReady(t tb.T, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := s.Ready(ctx, nil, func(ctx context.Context) error {
		status, body, err := fetch(ctx, "http://"+httpAddress+"/readyz?verbose")
		if err == nil && status != 200 {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return err
	})
	if err != nil {
		t.Fatalf("tributary is not ready: %v", err)
	}
}

// readerArgs are the flags for a config cluster.
func configCluster(c *lab.Cluster) []string {
	return []string{"--kubeconfig", c.KubeconfigFile(), "--cluster-id", c.ID}
}
