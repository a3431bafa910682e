package debug

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"tributary/model"
)

var (
	descServices = prometheus.NewDesc("pilot_services", "Services in the registry, of all clusters.", nil, nil)
	descEndpoint = prometheus.NewDesc("tributary_endpoints", "Endpoints in the registry, by whether clients are given them.", []string{"served"}, nil)
	descRevision = prometheus.NewDesc("tributary_snapshot_revision", "Revision of the snapshot that clients see.", nil, nil)
	descInbox    = prometheus.NewDesc("tributary_inbox_rows", "Rows of a source that wait for the core.", []string{"provider", "cluster"}, nil)
)

// collector reads the metrics of the registry when they are asked for.
type collector struct{ server *Server }

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descServices, descEndpoint, descRevision, descInbox} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	snap := c.server.snapshot()
	t := c.server.tally.count(snap)
	gauge(descServices, t.Services)
	gauge(descEndpoint, t.Served, "true")
	gauge(descEndpoint, t.Endpoints-t.Served, "false")
	gauge(descRevision, int(snap.Revision))
	waiting := map[model.ShardKey]int{} // a source with nothing that waits is shown too
	for _, cl := range c.server.sources.Clusters() {
		waiting[model.ShardKey{Provider: model.Kubernetes, Cluster: cl.ID}] = 0
	}
	maps.Copy(waiting, c.server.sources.Inbox())
	for _, source := range slices.SortedFunc(maps.Keys(waiting), func(a, b model.ShardKey) int { return cmp.Or(a.Compare(b), cmp.Compare(a.Provider, b.Provider)) }) {
		gauge(descInbox, waiting[source], string(source.Provider), string(source.Cluster))
	}
}
