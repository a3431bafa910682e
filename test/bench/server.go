package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tributary/test/lab"
	"tributary/test/proc"
)

// Names of the servers, in the order in which they are shown.
var serverNames = []string{"floor", "tributary", "istiod"}

// startTimeout bounds the start of a server, with all its data.
const startTimeout = 3 * time.Minute

// server is a control plane that runs.
type server struct {
	name string
	xds  string // address
	http string // address of its HTTP pages; "" without
	proc *proc.Process
}

func (s *server) process() process { return process(s.proc.Pid()) }

func (s *server) stop() error { return s.proc.Stop(30 * time.Second) }

// start starts a server on the clusters of l and waits until it is ready. Its
// files and log go to dir.
func (b *binaries) start(ctx context.Context, name string, l *lab.Lab, dir string) (*server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	var addresses [7]string
	for i := range addresses {
		var err error
		if addresses[i], err = freeAddress(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
	}
	s := &server{name: name, xds: addresses[0]}
	o := proc.Options{Name: name, Path: b.paths[name], LogFile: filepath.Join(dir, "log"), Dir: dir}
	ready := func(ctx context.Context) error { return dial(ctx, s.xds) }
	config := l.Clusters()[0]
	switch name {
	case "floor":
		o.Args = []string{s.xds}
		for _, c := range l.Clusters() {
			o.Args = append(o.Args, c.ID+"="+c.KubeconfigFile())
		}
	case "tributary":
		s.http = addresses[1]
		o.Args = []string{
			"serve", "--kubeconfig", config.KubeconfigFile(), "--cluster-id", config.ID,
			"--xds-address", s.xds, "--http-address", s.http, "--data-dir", filepath.Join(dir, "data"),
		}
		ready = func(ctx context.Context) error { return get(ctx, "http://"+s.http+"/readyz", io.Discard) }
	case "istiod":
		if err := istiod(&o, dir, config, addresses); err != nil {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
		ready = func(ctx context.Context) error { return get(ctx, "http://"+addresses[1]+"/ready", io.Discard) }
	}
	var err error
	if s.proc, err = proc.Start(o); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.proc.Ready(ctx, say, ready); err != nil {
		s.proc.Kill()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return s, nil
}

// istiod completes o so that a pilot-discovery that watches clusters and serves
// xDS starts without the rest of a mesh: no certificates, no webhooks.
func istiod(o *proc.Options, dir string, config *lab.Cluster, addresses [7]string) error {
	mesh, networks := filepath.Join(dir, "mesh.yaml"), filepath.Join(dir, "networks.yaml")
	for file, text := range map[string]string{mesh: "trustDomain: cluster.local\n", networks: "networks: {}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	o.Env = []string{
		"POD_NAME=istiod-0", "POD_NAMESPACE=" + secretNamespace, "CLUSTER_ID=" + config.ID,
		"INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=", "ENABLE_CA_SERVER=false", "XDS_AUTH=false",
		// By default it refuses most of a fleet that connects at once.
		"PILOT_MAX_REQUESTS_PER_SECOND=100000",
	}
	o.Args = []string{
		"discovery", "--kubeconfig", config.KubeconfigFile(), "--clusterID", config.ID,
		"--meshConfig", mesh, "--networksConfig", networks,
		"--grpcAddr", addresses[0], "--httpAddr", addresses[1], "--monitoringAddr", addresses[2],
		"--httpsAddr", "", "--secureGRPCAddr", "", "--ctrlz_port", "0",
	}
	return nil
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }() // nothing was written
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), nil
}

func dial(ctx context.Context, address string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// get copies an HTTP answer to w; any status but 200 is an error.
func get(ctx context.Context, url string, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // for the message only
		return fmt.Errorf("%s: %s: %s", url, response.Status, b)
	}
	_, err = io.Copy(w, response.Body)
	return err
}
