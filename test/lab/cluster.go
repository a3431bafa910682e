package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"tributary/test/parts"
	"tributary/test/proc"
)

// maxClusters is how many service ranges 10.(96+i).0.0/16 there are.
const maxClusters = 150

// Cluster is one cluster of a lab: a kube-apiserver, and a
// kube-controller-manager when StartControllers was called.
type Cluster struct {
	// ID names the cluster.
	ID string

	// Set once.
	lab    *Lab
	dir    string
	port   int
	number int

	added bool // whether its first start succeeded; guarded by lab.mu

	clients                clients
	apiserver, controllers part
}

// part holds a process of the cluster, if it runs.
type part struct {
	mu sync.Mutex
	p  *proc.Process
}

// start runs begin unless a process of the part runs already.
func (part *part) start(begin func() (*proc.Process, error)) error {
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.p != nil && part.p.Err() == nil {
		return errors.New("it runs already")
	}
	p, err := begin()
	part.p = p
	return err
}

// get returns the process, which may have ended; nil before the first.
func (part *part) get() *proc.Process {
	part.mu.Lock()
	defer part.mu.Unlock()
	return part.p
}

func (part *part) kill() {
	if p := part.get(); p != nil {
		p.Kill()
	}
}

// bringUp starts what a new cluster consists of.
func (c *Cluster) bringUp(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return fmt.Errorf("adding cluster %s: %w", c.ID, err)
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	if c.lab.options.Controllers {
		if err := c.StartControllers(ctx); err != nil {
			return err
		}
	}
	c.lab.mu.Lock()
	defer c.lab.mu.Unlock()
	c.added = true
	return nil
}

// end kills what runs of the cluster.
func (c *Cluster) end() {
	c.controllers.kill()
	c.apiserver.kill()
	c.closeClients()
}

// prepare writes the files that the cluster's processes need.
func (c *Cluster) prepare() error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if err := writeServiceAccountKey(c.path("sa.key")); err != nil {
		return err
	}
	return writeTokens(c.path("tokens.csv"), append([]Token{admin}, c.lab.options.Tokens...))
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) url() string { return "https://127.0.0.1:" + strconv.Itoa(c.port) }

// Start starts the API server, after a Stop too, and waits until it is ready.
// Address, certificate and data are those from before.
func (c *Cluster) Start(ctx context.Context) error {
	err := c.apiserver.start(func() (*proc.Process, error) {
		return proc.Start(proc.Options{
			Name: "API server of " + c.ID, Path: c.lab.apiserver, LogFile: c.path("kube-apiserver.log"),
			Args: append([]string{
				"--etcd-servers=" + c.lab.etcd.url, "--etcd-prefix=/" + c.ID,
				"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.port),
				"--advertise-address=127.0.0.1", // there may be no other address
				"--endpoint-reconciler-type=none",
				"--cert-dir=" + c.path("certs"),
				"--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
				"--service-account-issuer=https://kubernetes.default.svc",
				"--service-account-key-file=" + c.path("sa.key"), "--service-account-signing-key-file=" + c.path("sa.key"),
				fmt.Sprintf("--service-cluster-ip-range=10.%d.0.0/16", 96+c.number),
				// Pods need no service account that a controller made first.
				"--disable-admission-plugins=ServiceAccount",
			}, c.lab.options.APIServerArgs...),
		})
	})
	if err != nil {
		return fmt.Errorf("starting the API server of %s: %w", c.ID, err)
	}
	return c.WaitReady(ctx)
}

// WaitReady waits until the API server says that it is ready.
func (c *Cluster) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return c.apiserver.get().Ready(ctx, c.lab.options.Log, func(ctx context.Context) error {
		if err := c.connect(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url()+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := c.clients.http.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz: %s: %s", response.Status, body)
		}
		return err
	})
}

// Stop ends the API server in order: it tells its clients and closes their
// connections.
func (c *Cluster) Stop() error { return c.apiserver.get().Stop(30 * time.Second) }

// Kill ends the API server at once, as a crash would.
func (c *Cluster) Kill() { c.apiserver.kill() }

// Pause freezes the API server: connections stay open, and nobody answers.
func (c *Cluster) Pause() error { return c.apiserver.get().Pause() }

// Resume lets a paused API server go on.
func (c *Cluster) Resume() error { return c.apiserver.get().Resume() }

// Log returns what the API server wrote, over all its starts.
func (c *Cluster) Log() string { return c.apiserver.get().Log() }

// StartControllers starts the controller manager, with the controllers of
// endpoints, namespaces and service accounts, and waits until it works.
func (c *Cluster) StartControllers(ctx context.Context) error {
	binary, err := parts.KubeControllerManager(ctx, c.lab.options.Log)
	if err != nil {
		return fmt.Errorf("starting the controllers of %s: %w", c.ID, err)
	}
	err = c.controllers.start(func() (*proc.Process, error) {
		return proc.Start(proc.Options{
			Name: "controllers of " + c.ID, Path: binary, LogFile: c.path("kube-controller-manager.log"),
			Args: []string{
				"--kubeconfig=" + c.KubeconfigFile(), "--leader-elect=false", "--secure-port=0",
				"--controllers=endpointslice-controller,endpointslice-mirroring-controller,endpoints-controller," +
					"namespace-controller,serviceaccount-controller,serviceaccount-token-controller",
				"--service-account-private-key-file=" + c.path("sa.key"), "--root-ca-file=" + c.path("certs/apiserver.crt"),
				"--kube-api-qps=500", "--kube-api-burst=1000",
			},
		})
	})
	if err != nil {
		return fmt.Errorf("starting the controllers of %s: %w", c.ID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return c.controllers.get().Ready(ctx, c.lab.options.Log, c.controllersWork)
}

// StopControllers ends the controller manager: what happens in the cluster no
// longer shows in its EndpointSlices.
func (c *Cluster) StopControllers() error {
	p := c.controllers.get()
	if p == nil {
		return nil
	}
	return p.Stop(30 * time.Second)
}
