package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/xds"

	"tributary/test/backend"
	"tributary/test/envoy"
	"tributary/test/serve"
	"tributary/test/tb"
)

const cart = "outbound|80||cart.shop.svc.cluster.local"

// validate has Envoy check a bootstrap without running it.
func validate(t *testing.T, bootstrap string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), envoyBinary, "--mode", "validate", "-c", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "OK") {
		t.Errorf("envoy --mode validate: %v\n%s\n%s", err, out, bootstrap)
	}
}

// proxy returns what the server tells of a client; "" if it is not connected.
func proxy(ctx context.Context, name string) (string, error) {
	body, err := serve.Get(ctx, "/api/v1/proxies?name="+name)
	if err != nil {
		return "", err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return "", err
	}
	if len(list.Items) == 0 {
		return "", fmt.Errorf("%s is not connected", name)
	}
	return string(list.Items[0]), nil
}

// An Envoy that was given nothing but the bootstrap that is printed carries
// requests.
func TestBootstrapEnvoy(t *testing.T) {
	b := backend.Start(t, "127.0.0.31:0", "hello")
	host, port, _ := strings.Cut(b.Addr(), ":")
	number := 0
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	s := serve.New(t, tributary, map[string]string{"east/shop.yaml": serve.Shop(host, number, true)})
	s.Start(t)
	validate(t, must(t, "bootstrap", "envoy"))
	validate(t, must(t, "bootstrap", "envoy", "--xds-address", "tributary.istio-system:15010", "--node-name", "n", "--network", "yes"))
	for i, variant := range []string{"--delta", "--sotw"} {
		t.Run(variant, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			proxyPort := 15080 + i
			name := "edge" + strings.TrimLeft(variant, "-")
			if out := must(t, "bootstrap", "envoy", variant, "--xds-address", serve.XDS, "--node-name", name, "--namespace", "shop", "--cluster", "east",
				"--locality", "eu/eu-1/a", "--http-proxy-port", fmt.Sprint(proxyPort), "--admin-port", "0", "--output", file); out != "" {
				t.Errorf("with --output it prints %q", out)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			validate(t, string(text))
			e := envoy.Start(t, string(text))
			e.WaitHosts(t, 20*time.Second, cart, b.Addr())
			tb.Eventually(t, 20*time.Second, "an answer through Envoy", func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", proxyPort), nil)
				if err != nil {
					return err
				}
				req.Host = "cart" // the short name tells that the namespace was understood
				resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" {
					return fmt.Errorf("%s %q %w", resp.Status, body, err)
				}
				return nil
			})
			body, err := proxy(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`"cluster":"east"`, `"namespace":"shop"`, `"protocol":"` + strings.TrimLeft(variant, "-") + `"`} {
				if !strings.Contains(body, want) {
					t.Errorf("the server does not know %s of it: %s", want, body)
				}
			}
			// What it acknowledged is told, of this very resource.
			tb.Eventually(t, 20*time.Second, "explain to tell of the acknowledgement", func(context.Context) error {
				out := must(t, "explain", "cart.shop")
				if !strings.Contains(out, "~"+name+".shop~shop.svc.cluster.local (east) has acknowledged revision ") {
					return fmt.Errorf("it says:\n%s", out)
				}
				return nil
			})
		})
	}
}

func TestBootstrapRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"envoy", "--xds-address", "nowhere"}, "--xds-address"},
		{[]string{"envoy", "--xds-address", "a b:1"}, "neither an IP address nor a host name"},
		{[]string{"envoy", "--node-name", "a~b"}, "--node-name"},
		{[]string{"grpc", "--namespace", "A"}, "--namespace"},
		{[]string{"envoy", "--locality", "a/b/c/d"}, "--locality"},
		{[]string{"envoy", "--ip", "x"}, "--ip"},
		{[]string{"envoy", "--delta", "--sotw"}, "exclude each other"},
		{[]string{"grpc", "--sotw"}, "unknown flag"},
		{[]string{"nginx"}, `there is no bootstrap for "nginx"`},
		{[]string{"grpc", "--output", "/no/such/file"}, "writing the bootstrap"},
	} {
		if _, notes, err := command(t, append([]string{"bootstrap"}, c.args...)...); err == nil || !strings.Contains(notes, c.want) {
			t.Errorf("bootstrap %v: %v, %q, want %q", c.args, err, notes, c.want)
		}
	}
}

// gRPC's own client takes the bootstrap and connects by it.
func TestBootstrapGRPC(t *testing.T) {
	s := serve.New(t, tributary, map[string]string{"east/shop.yaml": serve.Shop("127.0.0.31", 8080, true)})
	s.Start(t)
	config := must(t, "bootstrap", "grpc", "--xds-address", serve.XDS, "--node-name", "client-1", "--namespace", "shop", "--cluster", "east", "--locality", "eu/eu-1")
	resolver, err := xds.NewXDSResolverWithConfigForTesting([]byte(config))
	if err != nil {
		t.Fatalf("gRPC does not take the bootstrap: %v\n%s", err, config)
	}
	conn, err := grpc.NewClient("xds:///cart.shop.svc.cluster.local:80", grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Connect()
	tb.Eventually(t, 20*time.Second, "the client to be connected", func(ctx context.Context) error {
		body, err := proxy(ctx, "client-1")
		if err != nil {
			return err
		}
		for _, want := range []string{`"userAgent":"gRPC Go"`, `"cluster":"east"`, `"namespace":"shop"`, `"protocol":"sotw"`, `"type":"LDS"`} {
			if !strings.Contains(body, want) {
				return fmt.Errorf("the server does not know %s of it: %s", want, body)
			}
		}
		return nil
	})
}
