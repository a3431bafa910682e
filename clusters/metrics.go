package clusters

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tributary/model"
)

// metrics are the numbers of a manager. Those that tell a state are made from
// what List shows when they are read, so that a cluster that is gone leaves no
// series behind.
type metrics struct {
	manager *Manager

	secretEvents *prometheus.CounterVec // remote_cluster_secret_events_total
	syncTimeouts *prometheus.CounterVec // remote_cluster_sync_timeouts_total
	refused      prometheus.Counter
	events       *prometheus.CounterVec // pilot_k8s_reg_events
}

var (
	managedDesc = prometheus.NewDesc("istiod_managed_clusters",
		"Number of clusters that are followed, by where they are known from.", []string{"cluster_type"}, nil)
	syncStatusDesc = prometheus.NewDesc("istiod_remote_cluster_sync_status",
		"Whether a remote cluster is synced, syncing, timeout or closed: 1 for what it is.", []string{"cluster", "status"}, nil)
	stateDesc = prometheus.NewDesc("tributary_cluster_state",
		"Whether a cluster is in a state: 1 for the one it is in.", []string{"cluster", "state"}, nil)
	refusedDesc = prometheus.NewDesc("tributary_cluster_refused_keys",
		"Keys of remote secrets and kubeconfig files that are not followed now, by state.", []string{"state"}, nil)
	epochDesc = prometheus.NewDesc("tributary_cluster_epoch",
		"Which credential of a cluster is in force, counted.", []string{"cluster"}, nil)
	syncSecondsDesc = prometheus.NewDesc("tributary_cluster_sync_seconds",
		"How long it took until a cluster was synced with the credential in force.", []string{"cluster"}, nil)
	errorsDesc = prometheus.NewDesc("tributary_cluster_watch_errors_total",
		"Lists and watches of a cluster that failed, or manifests that could not be read, since its source began.", []string{"cluster", "kind"}, nil)
	droppedDesc = prometheus.NewDesc("tributary_cluster_dropped_total",
		"Objects, ports and addresses that could not be used, since the source began.", []string{"cluster", "kind"}, nil)
	eventAgeDesc = prometheus.NewDesc("tributary_cluster_last_event_age_seconds",
		"Time since the last list, event or bookmark of a kind.", []string{"cluster", "kind"}, nil)
	errorAgeDesc = prometheus.NewDesc("tributary_cluster_last_error_age_seconds",
		"Time since a list or watch of a kind failed last, if one did since the source began.", []string{"cluster", "kind"}, nil)
	overdueDesc = prometheus.NewDesc("tributary_cluster_overdue_total",
		"Lists and watches of a cluster that were given up because nothing came, since its source began.", []string{"cluster", "kind"}, nil)
	probeAgeDesc = prometheus.NewDesc("tributary_cluster_probe_age_seconds",
		"Time since the API server answered a probe last, if it ever did.", []string{"cluster"}, nil)
	probeSecondsDesc = prometheus.NewDesc("tributary_cluster_probe_seconds",
		"How long the API server took to answer the last probe that it answered.", []string{"cluster"}, nil)
	probeFailuresDesc = prometheus.NewDesc("tributary_cluster_probe_failures_total",
		"Probes that were not answered, since the source of the cluster began.", []string{"cluster"}, nil)
	servedDesc = prometheus.NewDesc("tributary_cluster_served_ratio",
		"Which part of a cluster's endpoints is served: 1, or less while it drains.", []string{"cluster"}, nil)
)

func newMetrics(m *Manager) *metrics {
	return &metrics{
		manager: m,
		secretEvents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "remote_cluster_secret_events_total",
			Help: "Changes of remote secrets: add, update, delete."}, []string{"event"}),
		syncTimeouts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "remote_cluster_sync_timeouts_total",
			Help: "Clusters that had not synced when readiness stopped waiting for them."}, []string{"cluster"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "tributary_cluster_kubeconfigs_refused_total",
			Help: "Kubeconfigs in remote secrets and files that were refused."}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pilot_k8s_reg_events",
			Help: "Events of the watches of all clusters: add, update, delete. What lists bring is not counted."}, []string{"type", "event"}),
	}
}

// event counts an event of a watch.
func (m *metrics) event(kind, event string) { m.events.WithLabelValues(kind, event).Inc() }

// forget drops the series of a cluster that is gone.
func (m *metrics) forget(id model.ClusterID) { m.syncTimeouts.DeleteLabelValues(string(id)) }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.secretEvents.Describe(ch)
	m.syncTimeouts.Describe(ch)
	m.refused.Describe(ch)
	m.events.Describe(ch)
	for _, d := range []*prometheus.Desc{managedDesc, syncStatusDesc, stateDesc, refusedDesc, epochDesc, syncSecondsDesc, errorsDesc, droppedDesc, eventAgeDesc, errorAgeDesc, servedDesc,
		overdueDesc, probeAgeDesc, probeSecondsDesc, probeFailuresDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.secretEvents.Collect(ch)
	m.syncTimeouts.Collect(ch)
	m.refused.Collect(ch)
	m.events.Collect(ch)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	managed := map[string]int{Local.String(): 0, Remote.String(): 0, Directory.String(): 0}
	refused := map[State]int{Invalid: 0, Conflict: 0, Removed: 0}
	now := time.Now()
	for _, s := range m.manager.view.Load().statuses {
		if s.refusedKey() {
			refused[s.State]++
			continue
		}
		id := string(s.ID)
		managed[s.Type]++
		for state := range states {
			gauge(stateDesc, one(state == s.State), id, state.String())
		}
		if s.kind != Local {
			for _, status := range []string{"synced", "syncing", "timeout", "closed"} {
				gauge(syncStatusDesc, one(status == s.SyncStatus()), id, status)
			}
		}
		gauge(epochDesc, float64(s.Epoch), id)
		gauge(servedDesc, float64(s.Served)/100, id)
		if s.Known {
			gauge(syncSecondsDesc, s.SyncDuration.Seconds(), id)
		}
		if p := s.Probe; p != nil {
			ch <- prometheus.MustNewConstMetric(probeFailuresDesc, prometheus.CounterValue, float64(p.Failures), id)
			if !p.Answered.IsZero() {
				gauge(probeAgeDesc, now.Sub(p.Answered).Seconds(), id)
				gauge(probeSecondsDesc, p.Took.Seconds(), id)
			}
		}
		for k := range model.Kinds {
			row := &s.health.Kinds[k]
			ch <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(row.Errors), id, k.String())
			ch <- prometheus.MustNewConstMetric(overdueDesc, prometheus.CounterValue, float64(row.Overdue), id, k.String())
			ch <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(row.Dropped), id, k.String())
			if !row.LastEvent.IsZero() {
				gauge(eventAgeDesc, now.Sub(row.LastEvent).Seconds(), id, k.String())
			}
			if !row.LastErrorAt.IsZero() {
				gauge(errorAgeDesc, now.Sub(row.LastErrorAt).Seconds(), id, k.String())
			}
		}
	}
	for kind, n := range managed {
		gauge(managedDesc, float64(n), kind)
	}
	for state, n := range refused {
		gauge(refusedDesc, float64(n), state.String())
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
