package envoy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tributary/test/parts"
	"tributary/test/proc"
	"tributary/test/tb"
)

// startTimeout bounds the start, which takes 0.1 s on a machine at rest.
const startTimeout = 60 * time.Second

// Options says how to run an Envoy.
type Options struct {
	// Bootstrap is its configuration, as YAML. It needs no admin section: a
	// free port is taken for it.
	Bootstrap string
	// Args are added to its flags.
	Args []string
	// Log takes lines about steps that take long; nil is silent.
	Log parts.Log
}

// Envoy is a running Envoy.
type Envoy struct {
	dir   string
	proc  *proc.Process
	admin string // host:port
	http  *http.Client
}

// Start runs an Envoy with the given bootstrap until the test ends.
func Start(t tb.T, bootstrap string) *Envoy {
	t.Helper()
	e, err := New(t.Context(), Options{
		Bootstrap: bootstrap,
		Log:       func(line string) { fmt.Fprintln(os.Stderr, "envoy:", line) },
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return e
}

// New runs an Envoy until Close, and returns when its admin interface answers.
// It may still wait for its first configuration then. ctx bounds only the
// start.
func New(ctx context.Context, options Options) (*Envoy, error) {
	binary, err := parts.Envoy(ctx, options.Log)
	if err != nil {
		return nil, fmt.Errorf("starting envoy: %w", err)
	}
	dir, err := os.MkdirTemp("", "tributary-envoy-")
	if err != nil {
		return nil, fmt.Errorf("starting envoy: %w", err)
	}
	e := &Envoy{dir: dir, http: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	if err := e.start(ctx, binary, options); err != nil {
		if e.proc != nil {
			e.proc.Kill()
		}
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting envoy: %w", err)
	}
	return e, nil
}

func (e *Envoy) start(ctx context.Context, binary string, options Options) (err error) {
	bootstrap, address := filepath.Join(e.dir, "bootstrap.yaml"), filepath.Join(e.dir, "admin")
	if err := os.WriteFile(bootstrap, []byte(options.Bootstrap), 0o600); err != nil {
		return err
	}
	e.proc, err = proc.Start(proc.Options{
		Name: "envoy", Path: binary, LogFile: filepath.Join(e.dir, "log"),
		Args: append([]string{
			"--config-path", bootstrap,
			// Merged into the bootstrap; the port is told by the file.
			"--config-yaml", "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}",
			"--admin-address-path", address,
			// Without hot restart any number can run on one machine.
			"--concurrency", "1", "--disable-hot-restart",
		}, options.Args...),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return e.proc.Ready(ctx, options.Log, func(ctx context.Context) error {
		b, err := os.ReadFile(address)
		if err != nil {
			return err
		}
		if e.admin = strings.TrimSpace(string(b)); e.admin == "" {
			return fmt.Errorf("%s is empty", address)
		}
		_, err = e.Get(ctx, "/server_info")
		return err
	})
}

// Close ends the Envoy and removes its files. A second call does nothing.
func (e *Envoy) Close() error {
	err := e.proc.Stop(10 * time.Second)
	e.http.CloseIdleConnections()
	if err := os.RemoveAll(e.dir); err != nil {
		return fmt.Errorf("removing envoy's files: %w", err)
	}
	return err
}

// Kill ends the Envoy at once.
func (e *Envoy) Kill() { e.proc.Kill() }

// Pid returns the process id.
func (e *Envoy) Pid() int { return e.proc.Pid() }

// Admin returns the address of the admin interface as host:port.
func (e *Envoy) Admin() string { return e.admin }

// Log returns what the Envoy wrote.
func (e *Envoy) Log() string { return e.proc.Log() }

// WaitFor waits until cond returns nil, and fails the test after timeout, or
// when the Envoy ends, with the last error of cond and the end of the log.
func (e *Envoy) WaitFor(t tb.T, timeout time.Duration, what string, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("not within %v", timeout))
	defer cancel()
	if err := e.proc.Until(ctx, cond); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// Get returns what the admin interface answers to a GET of the given path and
// query.
func (e *Envoy) Get(ctx context.Context, path string) ([]byte, error) {
	return e.ask(ctx, http.MethodGet, path)
}

// Post is Get for the paths that change something, such as /reset_counters.
func (e *Envoy) Post(ctx context.Context, path string) ([]byte, error) {
	return e.ask(ctx, http.MethodPost, path)
}

func (e *Envoy) ask(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+e.admin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking envoy for %s: %w", path, err)
	}
	response, err := e.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking envoy: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("asking envoy for %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking envoy for %s: %s: %s", path, response.Status, body)
	}
	return body, nil
}

// Stats returns the counters and gauges whose names start with prefix.
func (e *Envoy) Stats(ctx context.Context, prefix string) (map[string]int64, error) {
	body, err := e.Get(ctx, "/stats?filter="+url.QueryEscape("^"+regexp.QuoteMeta(prefix)))
	if err != nil {
		return nil, err
	}
	return parseStats(string(body)), nil
}
