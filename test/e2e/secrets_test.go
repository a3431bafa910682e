package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/debug"
	"tributary/test/lab"
	"tributary/test/tb"
)

// TestRemoteSecrets is about which secret adds a cluster and which one takes it
// away: one of another namespace does neither, nor one whose label says no; of two
// with the same ID only the owner counts, and the ID of the config cluster cannot
// be claimed.
func TestRemoteSecrets(t *testing.T) {
	l := lab.Start(t, "hub", "east")
	hub, east := l.Cluster("hub"), l.Cluster("east")
	for _, ns := range []string{systemNamespace, "team-a", "forge"} {
		hub.CreateNamespace(t, ns)
	}
	east.CreateNamespace(t, "forge")
	slice := func(name, ip string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: forge}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-a, namespace: forge, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [%[2]s]}]
`, name, ip)
	}
	hub.Apply(t, slice("kiln", "10.25.0.1"))
	east.Apply(t, slice("kiln", "10.35.0.1")+"---"+slice("anvil", "10.35.0.2"))

	outside := east.RemoteSecret("team-a")
	no := east.RemoteSecret(systemNamespace)
	no.Name, no.Labels = "says-no", map[string]string{"istio/multiCluster": "false"}
	hub.CreateSecret(t, outside)
	hub.CreateSecret(t, no)

	s := startServer(t, t.TempDir(), append(configCluster(hub), "--cluster-undo-window", "0s")...)
	s.waitReady(t, 20*time.Second)
	offers := func(want ...string) {
		t.Helper()
		tb.Eventually(t, 40*time.Second, fmt.Sprint("endpoints ", want), func(ctx context.Context) error {
			var page debug.List[debug.Endpoint]
			if err := getPage(ctx, "/api/v1/endpoints?namespace=forge", &page); err != nil {
				return err
			}
			var got []string
			for _, e := range page.Items {
				got = append(got, strings.Join([]string{e.Cluster, strings.SplitN(e.Host, ".", 2)[0], e.Address, e.State}, " "))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("they are %q", got)
			}
			return nil
		})
	}
	states := func(want ...string) {
		t.Helper()
		tb.Eventually(t, 40*time.Second, fmt.Sprint("clusters ", want), func(ctx context.Context) error {
			var page debug.List[debug.Cluster]
			if err := getPage(ctx, "/api/v1/clusters", &page); err != nil {
				return err
			}
			var got []string
			for _, c := range page.Items {
				got = append(got, strings.Join(strings.Fields(fmt.Sprint(c.ID, " ", strings.TrimPrefix(c.Secret, systemNamespace+"/"), " ", c.State, " ", c.Epoch)), " "))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("they are %q", got)
			}
			return nil
		})
	}
	own := []string{"hub kiln 10.25.0.1 served"}
	both := []string{"east anvil 10.35.0.2 served", "east kiln 10.35.0.1 served", "hub kiln 10.25.0.1 served"}

	// Only the namespace and the label count that were agreed on.
	states("hub synced 1")
	offers(own...)
	remote := east.RemoteSecret(systemNamespace)
	remote.Name = "remote-east"
	hub.CreateSecret(t, remote)
	states("east remote-east synced 1", "hub synced 1")
	offers(both...)
	if err := hub.Client().CoreV1().Secrets("team-a").Delete(t.Context(), outside.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	// A second secret, younger, that claims the own ID as well. If it is not older
	// than a second, its name comes later too.
	second := secretWith("remote-east-copy", map[string][]byte{"east": east.KubeconfigFor("another-token"), "hub": east.Kubeconfig()})
	withCopy := []string{"east remote-east synced 1", "east remote-east-copy conflict 0", "hub remote-east-copy conflict 0", "hub synced 1"}
	hub.CreateSecret(t, second.DeepCopy())
	states(withCopy...)
	deleteSecret(t, hub, "remote-east-copy")
	states("east remote-east synced 1", "hub synced 1") // and has not been restarted
	hub.CreateSecret(t, second.DeepCopy())
	states(withCopy...)
	offers(both...)
	for _, id := range []string{"east", "hub"} {
		if log := s.Log(); !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.Contains(line, "WARN") && strings.Contains(line, "remote-east-copy") && strings.Contains(line, id)
		}) {
			t.Errorf("the log does not warn of the second claim on %s:\n%s", id, log)
		}
	}
	deleteSecret(t, hub, "remote-east-copy")
	states("east remote-east synced 1", "hub synced 1")

	// Gone with its secret, and back with it.
	deleteSecret(t, hub, "remote-east")
	states("hub synced 1")
	offers(own...)
	gone(t, "east")
	again := east.RemoteSecret(systemNamespace)
	again.Name = "remote-east"
	hub.CreateSecret(t, again)
	offers(both...)
}

// getPage reads a page of the API.
func getPage(ctx context.Context, path string, page any) error {
	code, body, err := fetch(ctx, "http://"+httpAddress+path)
	if err != nil {
		return err
	}
	if code != 200 {
		return fmt.Errorf("%s: %d %s", path, code, body)
	}
	return json.Unmarshal([]byte(body), page)
}
