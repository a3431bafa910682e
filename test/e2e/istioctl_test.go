package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"tributary/test/envoy"
	"tributary/test/lab"
	"tributary/test/parts"
	"tributary/test/tb"
	"tributary/xds"
)

// ctl is the real istioctl against the server. It wants an API server, even where
// all it asks is the xDS address.
type ctl struct {
	path, home, kubeconfig string
}

func newCtl(t *testing.T, c *lab.Cluster) *ctl {
	t.Helper()
	path, err := parts.Istioctl(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &ctl{path: path, home: t.TempDir(), kubeconfig: c.KubeconfigFile()}
}

// run returns what the command printed; err if it failed.
func (c *ctl) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	args = append(args, "--xds-address", xdsAddress, "--plaintext", "--timeout", "10s", "--kubeconfig", c.kubeconfig)
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Env = []string{"HOME=" + c.home, "PATH=" + os.Getenv("PATH")}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (c *ctl) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.run(t.Context(), args...)
	if err != nil {
		t.Fatalf("istioctl %v: %v\n%s", args, err, out)
	}
	return out
}

var columns = regexp.MustCompile(`\s{2,}`)

// table returns the rows of a table that istioctl printed by the first column,
// each cell under its heading, without the age behind a state.
func table(out string) map[string]map[string]string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	heads := columns.Split(strings.TrimSpace(lines[0]), -1)
	rows := map[string]map[string]string{}
	for _, line := range lines[1:] {
		cells := columns.Split(strings.TrimSpace(line), -1)
		row := map[string]string{}
		for i, cell := range cells {
			if i < len(heads) {
				row[heads[i]], _, _ = strings.Cut(cell, " (")
			}
		}
		rows[cells[0]] = row
	}
	return rows
}

// client is a client of the state-of-the-world variant that does with a response
// what the test wants.
type client struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node   *corev3.Node
}

func startClient(t *testing.T, name string) *client {
	t.Helper()
	conn, err := grpc.NewClient(xdsAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); conn.Close() })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	md, err := structpb.NewStruct(map[string]any{"CLUSTER_ID": "spoke", "NAMESPACE": "shop", "ISTIO_VERSION": "1.30.0"})
	if err != nil {
		t.Fatal(err)
	}
	return &client{stream, &corev3.Node{Id: "sidecar~10.0.0.9~" + name + ".shop~shop.svc.cluster.local", Metadata: md}}
}

// get asks for a type and waits for the response. It is acknowledged, refused for
// a reason, or left as it is.
func (c *client) get(t *testing.T, url string, names []string, acknowledge bool, reason string) {
	t.Helper()
	request := &discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: url, ResourceNames: names}
	if err := c.stream.Send(request); err != nil {
		t.Fatal(err)
	}
	var response *discoveryv3.DiscoveryResponse
	for response.GetTypeUrl() != url { // others may be pushed meanwhile
		var err error
		if response, err = c.stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if !acknowledge && reason == "" {
		return
	}
	request.ResponseNonce = response.Nonce
	if reason != "" {
		request.ErrorDetail = &rpcstatus.Status{Code: 3, Message: reason}
	}
	if err := c.stream.Send(request); err != nil {
		t.Fatal(err)
	}
}

// TestIstioctl runs the real istioctl against a fleet with a real Envoy, a client
// that refuses its clusters and one that never answers.
func TestIstioctl(t *testing.T) {
	l := lab.Start(t, "hub")
	hub := l.Cluster("hub")
	hub.CreateNamespace(t, systemNamespace)
	offer(t, hub, "10.4.0.1")
	dir := t.TempDir()
	s := startServer(t, dir, configCluster(hub)...)
	s.waitReady(t, 30*time.Second)
	tool := newCtl(t, hub)

	const id = "sidecar~127.0.0.1~cart-hub.shop~shop.svc.cluster.local"
	e := envoy.Start(t, envoy.ADS{
		Server: xdsAddress, Name: "cart-hub", Namespace: "shop",
		Metadata: map[string]any{"CLUSTER_ID": "hub", "NAMESPACE": "shop", "ISTIO_VERSION": "1.32.0", "HTTP_PROXY_PORT": 15090},
		Secrets:  envoy.Secrets(t),
	}.Bootstrap())
	e.WaitHosts(t, 20*time.Second, cartCluster, "10.4.0.1:8080")
	picky, slow := startClient(t, "picky"), startClient(t, "slow")
	picky.get(t, xds.ClusterType, nil, false, "these are not the clusters I want")
	picky.get(t, xds.ListenerType, nil, true, "")
	slow.get(t, xds.ClusterType, nil, false, "")

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("proxy-status", func(t *testing.T) {
		type row = map[string]string
		other := func(name, cds, lds string) row {
			return row{"NAME": "sidecar~10.0.0.9~" + name + ".shop~shop.svc.cluster.local", "CLUSTER": "spoke", "CDS": cds, "LDS": lds,
				"EDS": "IGNORED", "RDS": "IGNORED", "ISTIOD": host, "VERSION": "1.30.0"}
		}
		wants := []row{
			{"NAME": id, "CLUSTER": "hub", "CDS": "SYNCED", "LDS": "SYNCED", "EDS": "SYNCED", "RDS": "SYNCED", "ISTIOD": host, "VERSION": "1.32.0"},
			other("picky", "ERROR", "SYNCED"), other("slow", "STALE", "IGNORED"),
		}
		tb.Eventually(t, 60*time.Second, "the table to have all proxies", func(ctx context.Context) error {
			out, err := tool.run(ctx, "proxy-status", "--verbosity", "1")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			rows := table(out)
			for _, want := range wants {
				for head, cell := range want {
					if got := rows[want["NAME"]][head]; got != cell {
						err = errors.Join(err, fmt.Errorf("%s of %s is %q, want %q", head, want["NAME"], got, cell))
					}
				}
			}
			if len(rows) != len(wants) {
				err = errors.Join(err, fmt.Errorf("%d rows, want %d", len(rows), len(wants)))
			}
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			return err
		})
		if out := tool.must(t, "proxy-status", "--namespace", "elsewhere"); strings.Contains(out, "shop") {
			t.Errorf("the namespace is not looked at:\n%s", out)
		}
		if out := tool.must(t, "proxy-status", "-o", "json"); !strings.Contains(out, "these are not the clusters I want") {
			t.Errorf("the reason of the refusal is not told:\n%s", out)
		}
	})

	// One proxy: what it is given is compared with what the Envoy has.
	t.Run("proxy-status of a pod", func(t *testing.T) {
		dump, err := e.Get(t.Context(), "/config_dump")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "dump.json")
		compare := func(dump []byte) string {
			if err := os.WriteFile(file, dump, 0o600); err != nil {
				t.Fatal(err)
			}
			return tool.must(t, "proxy-status", "cart-hub.shop", "--file", file)
		}
		out := compare(dump)
		for _, want := range []string{"Clusters Match", "Listeners Match", "Routes Match"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		changed := bytes.ReplaceAll(dump, []byte(cartCluster), []byte("outbound|8080||other.shop.svc.cluster.local"))
		if out := compare(changed); !strings.Contains(out, "Clusters Don't Match") {
			t.Errorf("another cluster is not seen:\n%s", out)
		}
		out, err = tool.run(t.Context(), "proxy-status", "nobody.shop", "--file", file)
		if err == nil || !strings.Contains(out, "unable to find config dump") {
			t.Errorf("of a proxy that is not there: %v\n%s", err, out)
		}
	})

	t.Run("internal-debug", func(t *testing.T) {
		for _, path := range []string{"clusterz", "registryz", "endpointShardz", "syncz", "config_dump?proxyID=cart-hub.shop"} {
			tb.Eventually(t, 30*time.Second, path+" to be the page", func(ctx context.Context) error {
				_, page, err := fetch(ctx, "http://"+httpAddress+"/debug/"+path)
				if err != nil {
					return err
				}
				var want bytes.Buffer
				if err := json.Indent(&want, []byte(page), "", "  "); err != nil {
					return fmt.Errorf("%w: %s", err, page)
				}
				got, err := tool.run(ctx, "x", "internal-debug", path)
				if err == nil && strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
					err = fmt.Errorf("it differs; got:\n%s\nthe page:\n%s", got, want.String())
				}
				return err
			})
		}
		out := tool.must(t, "x", "internal-debug", "adsz")
		if !strings.Contains(out, "please check all supported internal debug commands") || !strings.Contains(out, "endpointShardz") {
			t.Errorf("of a path that is not there:\n%s", out)
		}
		out, err := tool.run(t.Context(), "x", "internal-debug", "config_dump")
		if err == nil || !strings.Contains(out, "You must provide a proxyID") {
			t.Errorf("of a dump of no proxy: %v\n%s", err, out)
		}
	})

	t.Run("version", func(t *testing.T) {
		out := tool.must(t, "x", "version", "--short=false")
		for _, want := range []string{"tributary", "1.32.0"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}
