// Package serve runs the tributary binary on directories of manifests, for tests
// of what people see of it: the page and the commands. Its servers listen on
// Tributary's own addresses, so such a test has a network of its own (package
// netns).
package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"tributary/test/proc"
	"tributary/test/tb"
)

// Where a server listens.
const (
	XDS  = "127.0.0.1:15010"
	HTTP = "127.0.0.1:15014"
)

// Server is a running tributary.
type Server struct {
	*proc.Process
	// Fleet is the directory of its clusters.
	Fleet string
	dir   string
	path  string
}

// New returns a server that does not run yet, whose fleet has these files:
// CLUSTER/NAME.yaml and what is in it.
func New(t tb.T, binary string, fleet map[string]string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "tributary-serve-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{Fleet: filepath.Join(dir, "fleet"), dir: dir, path: binary}
	if err := os.Mkdir(s.Fleet, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	for name, text := range fleet {
		s.Write(t, name, text)
	}
	return s
}

// Write puts a file into the fleet, whole at once.
func (s *Server) Write(t tb.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.Fleet, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	hidden := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err := os.WriteFile(hidden, []byte(text), 0o644)
	if err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		t.Fatalf("writing a manifest: %v", err)
	}
}

// Start runs the server and returns when it is ready. It ends with the test, or
// before, with Stop or Kill, and may be started again.
func (s *Server) Start(t tb.T) {
	t.Helper()
	p, err := proc.Start(proc.Options{
		Name: "tributary", Path: s.path, LogFile: filepath.Join(s.dir, "log"),
		Args: []string{"serve", "--fleet", s.Fleet, "--data-dir", filepath.Join(s.dir, "data")},
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	s.Process = p
	t.Cleanup(func() {
		if err := p.Stop(20 * time.Second); err != nil {
			t.Logf("%v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.Ready(ctx, nil, func(ctx context.Context) error {
		_, err := Get(ctx, "/readyz?verbose")
		return err
	}); err != nil {
		t.Fatalf("%v", err)
	}
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Get returns what the server answers at a path; another status than 200 is an
// error.
func Get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+HTTP+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, b)
	}
	return string(b), err
}

// Shop is manifests of a Service cart in namespace shop with one pod at an
// address, whose readiness can be changed.
func Shop(address string, port int, ready bool) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, uid: 11111111-2222-3333-4444-555555555555, labels: {app: cart}}
spec: {serviceAccountName: cart, nodeName: node-1}
status: {phase: Running, podIP: %[1]s, conditions: [{type: Ready, status: "True"}]}
---
%[2]s`, address, Slice("cart-a", address, port, ready))
}

// Slice is a manifest of an EndpointSlice of that Service, which refers to that
// pod.
func Slice(name, address string, port int, ready bool) string {
	return fmt.Sprintf(`apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, port: %d}]
endpoints:
- addresses: [%s]
  conditions: {ready: %v}
  targetRef: {kind: Pod, namespace: shop, name: cart-1, uid: 11111111-2222-3333-4444-555555555555}
`, name, port, address, ready)
}
