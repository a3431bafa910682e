package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"tributary/test/lab"
	"tributary/test/proc"
	"tributary/test/tb"
)

// secretWith makes a remote secret with one cluster ID for each key.
func secretWith(name string, keys map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name, Labels: map[string]string{"istio/multiCluster": "true"}},
		Data:       keys,
	}
}

// edited returns a kubeconfig with a change.
func edited(t *testing.T, kubeconfig []byte, edit func(*clientcmdapi.Config)) []byte {
	t.Helper()
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	edit(c)
	b, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBadSecretsHarmNothingElse has secrets that cannot work beside one that
// can: each is named, with what is wrong, and the rest is served.
func TestBadSecretsHarmNothingElse(t *testing.T) {
	l := lab.Start(t, "hub", "good")
	hub, good := l.Cluster("hub"), l.Cluster("good")
	hub.CreateNamespace(t, systemNamespace)
	good.CreateNamespace(t, "shop")
	good.CreateNode(t, "node-1", "r", "z")
	good.CreateService(t, "shop", "cart", map[string]string{"app": "cart"}, lab.Port("http", 8080))
	good.CreateReadyPod(t, "shop", "cart-1", "10.9.0.1", map[string]string{"app": "cart"}, "node-1")

	const token = "not-to-be-seen-anywhere"
	dead := edited(t, good.KubeconfigFor(token), func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			cluster.Server = "https://127.0.0.1:1"
		}
	})
	exec := edited(t, good.KubeconfigFor(token), func(c *clientcmdapi.Config) {
		for _, user := range c.AuthInfos {
			user.Token = ""
			user.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{"/tmp/never"}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		}
	})
	hub.CreateSecret(t, secretWith("mixed", map[string][]byte{
		"good":    good.Kubeconfig(),
		"garbage": []byte("this is: [no kubeconfig"),
		"exec":    exec,
	}))
	hub.CreateSecret(t, secretWith("dead", map[string][]byte{"dead": dead}))
	hub.CreateSecret(t, secretWith("denied", map[string][]byte{"denied": good.KubeconfigFor(token)}))

	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("syncTimeout: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s := startServer(t, dir, append(configCluster(hub), "--config", config)...)
	s.waitReady(t, 20*time.Second)
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("ready after %v, before the dead cluster was given its 3 s", took)
	}

	for id, want := range map[string]string{
		"good":    `"state":"synced"`,
		"garbage": `"state":"invalid"`,
		"exec":    `"state":"invalid"`,
		"denied":  `"state":"denied"`,
		"dead":    `"timedOut":true`,
	} {
		tb.Eventually(t, 10*time.Second, "cluster "+id+" to be "+want, func(ctx context.Context) error {
			_, body, err := fetch(ctx, "http://"+httpAddress+"/api/v1/clusters?name="+id)
			if err == nil && !strings.Contains(strings.ReplaceAll(body, `": `, `":`), want) {
				err = fmt.Errorf("it is %s", body)
			}
			return err
		})
	}
	_, ready, err := fetch(t.Context(), "http://"+httpAddress+"/readyz?verbose")
	if err != nil || !strings.Contains(ready, "dead") {
		t.Errorf("readyz does not name the cluster that was given up: %s, %v", ready, err)
	}
	_, endpoints, err := fetch(t.Context(), "http://"+httpAddress+"/debug/endpointShardz")
	if err != nil || !strings.Contains(endpoints, "10.9.0.1") {
		t.Errorf("the good cluster is not served: %s, %v", endpoints, err)
	}
	_, metrics, err := fetch(t.Context(), "http://"+httpAddress+"/metrics")
	if err != nil || !strings.Contains(metrics, "remote_cluster_sync_timeouts_total") {
		t.Errorf("the timeout is not counted: %v", err)
	}
	log := s.Log()
	for _, want := range []string{systemNamespace + "/mixed", "garbage", "exec"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not name %s:\n%s", want, log)
		}
	}
	pages := map[string]string{"log": log, "readyz": ready, "metrics": metrics}
	for _, page := range []string{"/", "/debug", "/debug/clusterz", "/debug/registryz", "/debug/endpointShardz", "/debug/syncz",
		"/api/v1/clusters", "/api/v1/services", "/api/v1/endpoints", "/api/v1/proxies", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
		if _, pages[page], err = fetch(t.Context(), "http://"+httpAddress+page); err != nil {
			t.Error(err)
		}
	}
	for what, text := range pages {
		if strings.Contains(text, token) {
			t.Errorf("the %s has a credential", what)
		}
	}
	if _, err := os.Stat("/tmp/never"); err == nil {
		t.Error("the exec plugin of a secret was run")
	}
}

// TestWhatIsTakenIsNamed starts a second server on what the first one has.
func TestWhatIsTakenIsNamed(t *testing.T) {
	fleet := t.TempDir()
	if err := os.Mkdir(filepath.Join(fleet, "one"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first := startServer(t, dir, "--fleet", fleet)
	first.waitReady(t, 20*time.Second)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"data directory": {[]string{"--data-dir", filepath.Join(dir, "data")}, "--data-dir"},
		"xDS port":       {[]string{"--data-dir", t.TempDir()}, "--xds-address"},
		"HTTP port":      {[]string{"--data-dir", t.TempDir(), "--xds-address", "127.0.0.1:0"}, "--http-address"},
		"off loopback":   {[]string{"--data-dir", t.TempDir(), "--xds-address", "0.0.0.0:15010"}, "loopback"},
		"unknown field":  {[]string{"--config", unknownField(t)}, "line 2"},
		"no kubeconfigs": {[]string{"--data-dir", t.TempDir(), "--xds-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--kubeconfig-dir", "/no/such/dir"}, "--kubeconfig-dir"},
		"no fleet":       {[]string{"--data-dir", t.TempDir(), "--xds-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--fleet", "/no/such/fleet"}, "--fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := proc.Start(proc.Options{
				Path: binary, Args: append([]string{"serve", "--fleet", fleet}, c.args...), LogFile: filepath.Join(t.TempDir(), "log"),
			})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.Done():
			case <-time.After(20 * time.Second):
				p.Kill()
				t.Fatal("it went on")
			}
			if p.ExitCode() != 1 || !strings.Contains(p.Log(), c.want) {
				t.Errorf("exit code %d, and it said %q; want 1, and to be told of %s", p.ExitCode(), p.Log(), c.want)
			}
		})
	}
}

func unknownField(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("clusterID: one\nclusterName: two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
