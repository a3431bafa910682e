package clusters

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"tributary/model"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		w := newWorld(t, func(o *Options) { o.Metrics = registry })
		w.silent["dead/1"] = true
		w.observe("c/1", model.NoTrouble, "")
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("a"), "dead": goodKubeconfig("a"), "bad": "x", "config": "y"}))
		w.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("b"), "dead": goodKubeconfig("a"), "bad": "x", "config": "y"}))
		synctest.Wait()
		check := func(want string, names ...string) {
			t.Helper()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			if got := text(families, names); got != strings.TrimSpace(want) {
				t.Errorf("got:\n%s", got)
			}
		}
		check(`
istiod_managed_clusters{cluster_type="directory"} 0
istiod_managed_clusters{cluster_type="local"} 0
istiod_managed_clusters{cluster_type="remote"} 2
istiod_remote_cluster_sync_status{cluster="c",status="closed"} 0
istiod_remote_cluster_sync_status{cluster="c",status="synced"} 1
istiod_remote_cluster_sync_status{cluster="c",status="syncing"} 0
istiod_remote_cluster_sync_status{cluster="c",status="timeout"} 0
istiod_remote_cluster_sync_status{cluster="dead",status="closed"} 0
istiod_remote_cluster_sync_status{cluster="dead",status="synced"} 0
istiod_remote_cluster_sync_status{cluster="dead",status="syncing"} 0
istiod_remote_cluster_sync_status{cluster="dead",status="timeout"} 1
remote_cluster_secret_events_total{event="add"} 1
remote_cluster_secret_events_total{event="update"} 1
remote_cluster_sync_timeouts_total{cluster="dead"} 1
tributary_cluster_epoch{cluster="c"} 2
tributary_cluster_epoch{cluster="dead"} 1
tributary_cluster_kubeconfigs_refused_total 1
tributary_cluster_refused_keys{state="conflict"} 1
tributary_cluster_refused_keys{state="invalid"} 1
tributary_cluster_refused_keys{state="removed"} 0
`, "istiod_managed_clusters", "istiod_remote_cluster_sync_status", "remote_cluster_secret_events_total", "remote_cluster_sync_timeouts_total",
			"tributary_cluster_epoch", "tributary_cluster_kubeconfigs_refused_total", "tributary_cluster_refused_keys")

		// Of a cluster that is gone no series stays.
		w.api.Delete("secrets", secret("s", 1, nil))
		synctest.Wait()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, series := range f.Metric {
				for _, l := range series.Label {
					if l.GetName() == "cluster" {
						t.Errorf("%s of cluster %s is still there", f.GetName(), l.GetValue())
					}
				}
			}
		}
		w.stop()
	})
}

// text prints the series of the named families, one a line.
func text(families []*dto.MetricFamily, names []string) string {
	var lines []string
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			line := f.GetName()
			if labels != nil {
				line += "{" + strings.Join(labels, ",") + "}"
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
