package commands

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tributary/test/proc"
	"tributary/test/serve"
	"tributary/test/tb"
)

// tells waits until a command prints a text.
func tells(t *testing.T, want string, args ...string) string {
	t.Helper()
	var out string
	tb.Eventually(t, 20*time.Second, fmt.Sprintf("%v to tell %q", args, want), func(context.Context) error {
		var notes string
		out, notes, _ = command(t, args...)
		if !strings.Contains(out+notes, want) {
			return fmt.Errorf("it says:\n%s%s", out, notes)
		}
		return nil
	})
	return out
}

// Each thing that can happen to an endpoint is told by explain as it happens.
func TestExplainFollows(t *testing.T) {
	s := serve.New(t, tributary, map[string]string{"east/shop.yaml": serve.Shop("10.1.0.1", 8080, true), "west/other.yaml": "# nothing yet\n"})
	s.Start(t)
	out := tells(t, "1 of 1 endpoint is served", "explain", "cart.shop")
	for _, want := range []string{
		"Kubernetes/east EndpointSlice shop/cart-a", "+ 10.1.0.1 served", "Pod shop/cart-1 (uid 11111111-2222-3333-4444-555555555555, ready)", "service account cart", "node node-1",
		"labels app=cart", "port 80 http -> 8080", "west: no such Service, and without one the slices of a cluster are not used", "no client subscribes to it", "it is the only one",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("explain does not tell %q:\n%s", want, out)
		}
	}
	shop := serve.Shop("10.1.0.1", 8080, true)
	s.Write(t, "east/shop.yaml", serve.Shop("10.1.0.1", 8080, false))
	tells(t, "0 of 1 endpoint is served; 1 not ready", "explain", "cart.shop")
	s.Write(t, "east/shop.yaml", strings.Replace(shop, "name: cart-1, namespace: shop, uid: 11111111", "name: cart-1, namespace: shop, uid: 22222222", 1))
	tells(t, "1 held: pod has another uid", "explain", "cart.shop")
	s.Write(t, "east/shop.yaml", strings.Replace(shop, "name: cart-1, namespace: shop, uid", "name: cart-2, namespace: shop, uid", 1))
	tells(t, "10.1.0.1 is held: its pod is not known yet", "explain", "cart.shop", "10.1.0.1")
	s.Write(t, "east/shop.yaml", strings.Replace(shop, "phase: Running", "phase: Failed", 1))
	tells(t, "1 held: pod has ended", "explain", "cart.shop")
	s.Write(t, "east/shop.yaml", strings.Replace(shop, "ports: [{name: http, port: 8080}]", "ports: [{name: web, port: 8080}]", 1))
	tells(t, "1 unmatched: port names differ", "explain", "cart.shop")
	s.Write(t, "east/shop.yaml", strings.Replace(shop, "port: 80}", "port: 80, protocol: UDP}", 1))
	tells(t, "1 not balanced: clients do not balance over UDP", "explain", "cart.shop")
	s.Write(t, "east/shop.yaml", shop+"---\n"+serve.Slice("cart-b", "10.1.0.1", 8080, true))
	tells(t, "1 of 2 endpoints are served; 1 shadowed", "explain", "cart.shop")
	s.Write(t, "east/shop.yaml", "# gone\n")
	if _, notes, err := command(t, "explain", "cart.shop"); err == nil {
		tells(t, `no cluster that was heard has a service "cart.shop"`, "explain", "cart.shop")
	} else if !strings.Contains(notes, "no cluster that was heard") {
		t.Errorf("%v: %s", err, notes)
	}
	s.Write(t, "west/other.yaml", shop)
	tells(t, "Did you mean cart.shop?", "explain", "carts.shop")
}

// get -w goes on while the server ends and comes back, and ends with Ctrl-C.
func TestGetWatch(t *testing.T) {
	s := serve.New(t, tributary, map[string]string{"east/shop.yaml": serve.Shop("10.1.0.1", 8080, true)})
	s.Start(t)
	log := filepath.Join(t.TempDir(), "log")
	p, err := proc.Start(proc.Options{Path: tributary, Args: []string{"get", "endpoints", "cart", "-w"}, LogFile: log})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	lines := func(n int, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := p.Until(ctx, func(context.Context) error {
			if got := p.Log(); strings.Count(got, "\n") < n || !strings.Contains(got, want) {
				return fmt.Errorf("waiting for line %d with %q; it shows:\n%s", n, want, got)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	lines(2, "ADDED")
	s.Write(t, "east/shop.yaml", serve.Shop("10.1.0.1", 8080, false))
	lines(3, "not ready")
	s.Kill()
	lines(4, "The connection is lost, trying again")
	s.Start(t)
	lines(5, "The server is back")
	s.Write(t, "east/more.yaml", serve.Slice("cart-b", "10.1.0.2", 8080, true))
	lines(6, "10.1.0.2")
	if err := os.Remove(filepath.Join(s.Fleet, "east", "more.yaml")); err != nil {
		t.Fatal(err)
	}
	lines(7, "DELETED")
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("Ctrl-C does not end it")
	}
	text := p.Log()
	if p.ExitCode() != 0 || strings.Count(text, "ADDED") != 2 || strings.Count(text, "MODIFIED") != 1 || strings.Count(text, "DELETED") != 1 {
		t.Errorf("exit code %d, and it showed:\n%s", p.ExitCode(), text)
	}
}
