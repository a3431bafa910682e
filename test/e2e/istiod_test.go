package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"tributary/test/lab"
	"tributary/test/parts"
	"tributary/test/proc"
	"tributary/test/tb"
)

const istiodAddress = "127.0.0.1:18080"

// startIstiod runs a real istiod on a config cluster, without certificates and
// webhooks, and waits until it is ready.
func startIstiod(t *testing.T, c *lab.Cluster, env ...string) {
	t.Helper()
	path, crds, err := parts.Istiod(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(crds)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyObjects(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mesh, networks := filepath.Join(dir, "mesh.yaml"), filepath.Join(dir, "networks.yaml")
	for file, text := range map[string]string{mesh: "trustDomain: cluster.local\n", networks: "networks: {}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := proc.Start(proc.Options{
		Name: "istiod", Path: path, LogFile: filepath.Join(dir, "log"), Dir: dir,
		Env: append([]string{
			"POD_NAME=istiod-0", "POD_NAMESPACE=" + systemNamespace, "CLUSTER_ID=" + c.ID,
			"INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=", "ENABLE_CA_SERVER=false", "XDS_AUTH=false",
		}, env...),
		Args: []string{
			"discovery", "--kubeconfig", c.KubeconfigFile(), "--clusterID", c.ID, "--meshConfig", mesh, "--networksConfig", networks,
			"--grpcAddr", "127.0.0.1:18010", "--httpAddr", istiodAddress, "--monitoringAddr", "127.0.0.1:18014",
			"--httpsAddr", "", "--secureGRPCAddr", "", "--ctrlz_port", "0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("istiod:\n%s", p.Tail(30))
		}
		if err := p.Stop(30 * time.Second); err != nil {
			t.Logf("%v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = p.Ready(ctx, nil, func(ctx context.Context) error {
		status, body, err := fetch(ctx, "http://"+istiodAddress+"/ready")
		if err == nil && status != 200 {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// clusterz returns the elements of a server's page, by cluster. Istiod's order is
// random behind the first.
func clusterz(ctx context.Context, address string) ([]map[string]any, error) {
	_, body, err := fetch(ctx, "http://"+address+"/debug/clusterz")
	if err != nil {
		return nil, err
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return nil, fmt.Errorf("%w: %s", err, body)
	}
	slices.SortFunc(list, func(a, b map[string]any) int { return cmp.Compare(fmt.Sprint(a["id"]), fmt.Sprint(b["id"])) })
	return list, nil
}

// TestClusterz compares the page with that of a real istiod that watches the same
// clusters: the fields of every element, and which elements there are. Where the
// two differ on purpose, ours is what the test says.
func TestClusterz(t *testing.T) {
	l := lab.StartWith(t, lab.Options{Clusters: []string{"hub", "spoke"}})
	hub, spoke := l.Cluster("hub"), l.Cluster("spoke")
	hub.CreateNamespace(t, systemNamespace)
	const timeout = "15s" // long enough to be seen waiting
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("syncTimeout: "+timeout+"\nclusterUndoWindow: 5s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startIstiod(t, hub, "PILOT_REMOTE_CLUSTER_TIMEOUT="+timeout)
	s := startServer(t, dir, append(configCluster(hub), "--config", config)...)
	s.waitReady(t, 30*time.Second)

	type row struct{ id, secret, status string }
	expect := func(what, address string, want ...row) {
		t.Helper()
		var elements []map[string]any
		for _, r := range want {
			elements = append(elements, map[string]any{"id": r.id, "secretName": r.secret, "syncStatus": r.status})
		}
		tb.Eventually(t, 60*time.Second, what+" on "+address, func(ctx context.Context) error {
			got, err := clusterz(ctx, address)
			if err == nil && fmt.Sprint(got) != fmt.Sprint(elements) {
				err = fmt.Errorf("it is %v, want %v", got, elements)
			}
			return err
		})
	}
	both := func(what string, want ...row) {
		t.Helper()
		expect(what, istiodAddress, want...)
		expect(what, httpAddress, want...)
	}
	secret := func(name string) string { return systemNamespace + "/" + name }
	own := row{"hub", "", "synced"}
	remote := row{"spoke", secret("istio-remote-secret-spoke"), "synced"}

	both("the config cluster alone", own)
	hub.CreateSecret(t, spoke.RemoteSecret(systemNamespace))
	both("a remote cluster", own, remote)

	// What neither follows is on neither page: it is in the API.
	hub.CreateSecret(t, secretWith("own-id", map[string][]byte{"hub": spoke.Kubeconfig()}))
	hub.CreateSecret(t, secretWith("taken-id", map[string][]byte{"spoke": spoke.Kubeconfig()}))
	hub.CreateSecret(t, secretWith("garbage", map[string][]byte{"garbage": []byte("this is: [no kubeconfig")}))
	tb.Eventually(t, 30*time.Second, "the three to be refused", func(ctx context.Context) error {
		_, body, err := fetch(ctx, "http://"+httpAddress+"/api/v1/clusters")
		for _, name := range []string{"own-id", "taken-id", "garbage"} {
			if err == nil && !strings.Contains(body, secret(name)) {
				err = fmt.Errorf("%s is not in %s", name, body)
			}
		}
		return err
	})
	both("secrets that are refused", own, remote)
	deleteSecret(t, hub, "taken-id") // or it takes over

	// Istiod takes a cluster off at once, with its endpoints. Ours keeps it until
	// the time to undo is over and its endpoints have left in steps; the page says
	// meanwhile that its watches are closed.
	deleteSecret(t, hub, spoke.RemoteSecret(systemNamespace).Name)
	expect("the remote cluster is removed", httpAddress, own, row{remote.id, remote.secret, "closed"})
	both("the remote cluster is removed", own)
	hub.CreateSecret(t, spoke.RemoteSecret(systemNamespace))
	both("the remote cluster is back", own, remote)

	dead := edited(t, spoke.Kubeconfig(), func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			cluster.Server = "https://127.0.0.1:1"
		}
	})
	hub.CreateSecret(t, secretWith("dead", map[string][]byte{"dead": dead}))
	hub.CreateSecret(t, secretWith("denied", map[string][]byte{"denied": spoke.KubeconfigFor("no-such-token")}))
	unreachable := func(status string) row { return row{"dead", secret("dead"), status} }
	refused := func(status string) row { return row{"denied", secret("denied"), status} }
	// Istiod does not see that a credential is refused, and waits. Ours waits for
	// nobody who refuses, which the page says with the word for that.
	expect("two that do not work", istiodAddress, unreachable("syncing"), refused("syncing"), own, remote)
	expect("two that do not work", httpAddress, unreachable("syncing"), refused("timeout"), own, remote)
	both("two that do not work, after their time", unreachable("timeout"), refused("timeout"), own, remote)

	// Both go at once: nothing is known of them that could be missed. Istiod is not
	// looked at: at times it keeps a cluster that it never heard for minutes.
	deleteSecret(t, hub, "dead")
	deleteSecret(t, hub, "denied")
	expect("the two are removed", httpAddress, own, remote)
}
