// Command demo is what `make run` runs: Tributary on the example fleet, two
// backends, and a real Envoy whose requests are answered from both clusters. It
// keeps running until Ctrl-C, so that the fleet's manifests can be edited
// meanwhile. It is a newcomer's first look and no part of the product.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"tributary/test/backend"
	"tributary/test/envoy"
	"tributary/test/parts"
	"tributary/test/proc"
	"tributary/test/tb"
)

// Where everything is. The first two are Tributary's defaults.
const (
	xdsAddress   = "127.0.0.1:15010"
	httpAddress  = "127.0.0.1:15014"
	proxyAddress = "127.0.0.1:15080"
	fleet        = "examples/fleet"
	service      = "cart.shop"
)

// The backends behind the example fleet: the addresses of its EndpointSlices.
var backends = []struct{ cluster, address string }{
	{"east", "127.0.0.11:18081"},
	{"west", "127.0.0.21:18082"},
}

func main() {
	once := flag.Bool("once", false, "stop after the first requests were answered from both clusters")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := tb.Run(ctx, func(t tb.T) { demo(t, *once) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func step(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

func demo(t tb.T, once bool) {
	for _, b := range backends {
		backend.Start(t, b.address, "hello from cluster "+b.cluster)
		step("backend of cluster %s on %s", b.cluster, b.address)
	}
	binary, err := filepath.Abs("bin/tributary")
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		t.Fatalf("bin/tributary is missing, run `make build` first: %v", err)
	}
	data, err := os.MkdirTemp("", "tributary-demo-")
	if err != nil {
		t.Fatalf("making a data directory: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	step("tributary serve --fleet %s", fleet)
	server, err := proc.Start(proc.Options{
		Name: "tributary", Path: binary, LogFile: filepath.Join(data, "log"),
		Args: []string{"serve", "--fleet", fleet, "--xds-address", xdsAddress, "--http-address", httpAddress, "--data-dir", filepath.Join(data, "data")},
	})
	if err != nil {
		t.Fatalf("starting tributary: %v", err)
	}
	t.Cleanup(func() { _ = server.Stop(10 * time.Second) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Ready(ctx, func(line string) { step("%s", line) }, func(ctx context.Context) error {
		_, err := get(ctx, http.DefaultClient, "http://"+httpAddress+"/readyz", "")
		return err
	}); err != nil {
		t.Fatalf("tributary is not ready: %v", err)
	}
	fmt.Print(indent(server.Log()))

	proxied := startEnvoy(t)
	if proxied {
		requests(t)
	}
	fmt.Printf(`
Everything runs until Ctrl-C.

  page, metrics, debug   http://%s
  xDS                    %s (plaintext ADS, delta and state of the world)
`, httpAddress, xdsAddress)
	if proxied {
		fmt.Printf("  through Envoy          curl -H 'Host: %s' http://%s/\n", service, proxyAddress)
	}
	fmt.Printf(`
Things to try:

  bin/tributary get endpoints                    what is served, and from which cluster
  bin/tributary get proxies                      who is connected, and what it acknowledged
  edit %s/west/shop.yaml            set "ready: false" on the endpoint, or delete the file:
                                                 the next request goes to the other cluster
  cp -r %s/west %s/north    a third cluster appears while everything runs
  bin/tributary serve --kubeconfig FILE --cluster-id ID   the same on a real cluster

`, fleet, fleet, fleet)
	if once {
		return
	}
	select {
	case <-t.Context().Done():
	case <-server.Done():
		t.Fatalf("tributary ended:\n%s", server.Tail(20))
	}
	fmt.Println()
	step("stopping")
}

// startEnvoy starts an Envoy that gets everything from Tributary, if one can be
// had on this machine.
func startEnvoy(t tb.T) bool {
	step("starting Envoy %s (fetched once)", parts.EnvoyVersion)
	e, err := envoy.New(t.Context(), envoy.Options{
		Bootstrap: envoy.ADS{Server: xdsAddress, Name: "demo", Namespace: "shop", Metadata: map[string]any{"CLUSTER_ID": "east"}}.Bootstrap(),
		Log:       func(line string) { step("%s", line) },
	})
	if errors.Is(err, parts.ErrUnavailable) {
		step("no Envoy for this machine, going on without: %v", err)
		return false
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	tb.Eventually(t, 30*time.Second, "Envoy's listener on "+proxyAddress, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxyAddress)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	step("Envoy is configured; its admin page is http://%s", e.Admin())
	return true
}

// requests sends requests through Envoy until both clusters have answered.
func requests(t tb.T) {
	const most = 200
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	answers := map[string]int{}
	tb.Eventually(t, 30*time.Second, "answers from both clusters", func(ctx context.Context) error {
		for range most {
			body, err := get(ctx, client, "http://"+proxyAddress+"/", service)
			if err != nil {
				return err
			}
			answers[body]++
			if len(answers) == len(backends) {
				return nil
			}
		}
		return fmt.Errorf("%d requests were answered by %d of %d clusters", most, len(answers), len(backends))
	})
	lines := make([]string, 0, len(answers))
	for a, n := range answers {
		lines = append(lines, fmt.Sprintf("    %3d x %s", n, a))
	}
	sort.Strings(lines)
	step("requests for %s through Envoy:\n%s", service, strings.Join(lines, "\n"))
}

func get(ctx context.Context, client *http.Client, url, host string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if host != "" {
		req.Host = host
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("    " + line)
	}
	return b.String()
}
