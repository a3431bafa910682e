package xds

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the server. Names that start with pilot_ mean what they mean in
// Istio, whose pilot_proxy_queue_time and pilot_worker_queue_depth are not here:
// no stream has a queue.
type Metrics struct {
	registry prometheus.Registerer

	streams, connections                               prometheus.Gauge
	turnedAway, hurried, connectionsRefused            prometheus.Counter
	garbage, invalid, silent, writeTimeouts            prometheus.Counter
	ackTimeouts, tooLarge, cut, internalErrors         prometheus.Counter
	cacheHits, cacheMisses, cacheTurns, quarantineFull prometheus.Counter
	pushes, rejects, bytes, expired                    *prometheus.CounterVec
	quarantine                                         *prometheus.GaugeVec
	sendTime, convergence, acknowledged                prometheus.Histogram
	largest                                            prometheus.Gauge
	largestSeen                                        atomic.Int64
	types                                              [5]typeMetrics // by rank; the last is of all other types
}

// typeMetrics are the metrics of one type, found once: a lookup by label costs
// more than counting.
type typeMetrics struct {
	pushes, rejects, bytes, expired prometheus.Counter
	size, pushTime                  prometheus.Observer
}

// typeLabels are those of the types in their order. A client chooses all other
// types, so they must not become labels.
var typeLabels = [...]string{"cds", "eds", "lds", "rds", "other"}

// Buckets in seconds, as Istio's where the name is.
var (
	convergenceBuckets = []float64{.1, .5, 1, 3, 5, 10, 20, 30}
	lagBuckets         = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5, 30}
)

// NewMetrics registers the metrics at r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	vec := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"type"})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	m := &Metrics{
		registry:           r,
		streams:            gauge("tributary_xds_streams", "Open xDS streams."),
		connections:        gauge("tributary_xds_connections", "Open connections to the xDS server."),
		turnedAway:         counter("tributary_xds_streams_refused_total", "Streams refused because too many are open."),
		hurried:            counter("tributary_xds_streams_over_rate_total", "Streams refused because too many began within a short time."),
		connectionsRefused: counter("tributary_xds_connections_refused_total", "Connections refused because too many are open."),
		garbage:            counter("tributary_xds_unreadable_requests_total", "Requests that could not be decoded or were too large."),
		invalid:            counter("tributary_xds_invalid_requests_total", "Requests that break the protocol or a limit; each ends its stream."),
		silent:             counter("tributary_xds_silent_streams_total", "Streams ended because no request came."),
		writeTimeouts:      counter("pilot_xds_write_timeout", "Streams ended because the client did not read."),
		ackTimeouts:        counter("tributary_xds_ack_timeouts_total", "Streams ended because the client neither acknowledged nor refused a response."),
		tooLarge:           counter("tributary_xds_responses_too_large_total", "Streams ended because a response that cannot be parted is too large."),
		cut:                counter("tributary_xds_responses_parted_total", "Responses that were sent in parts because of their size."),
		internalErrors:     counter("pilot_total_xds_internal_errors", "Resources that could not be rendered."),
		cacheHits:          counter("xds_cache_reads", "Rendered resources that were found in the cache."),
		cacheMisses:        counter("tributary_xds_renders_total", "Resources that were rendered."),
		cacheTurns:         counter("xds_cache_evictions", "Generations of the cache that were let go."),
		quarantineFull:     counter("tributary_xds_quarantine_evictions_total", "Refused resources that were forgotten because too many are."),
		pushes:             vec("pilot_xds_pushes", "Responses sent, by type."),
		rejects:            vec("pilot_total_xds_rejects", "Responses that clients refused, by type."),
		bytes:              vec("tributary_xds_sent_bytes_total", "Bytes of the responses sent, by type."),
		expired:            vec("pilot_xds_expired_nonce", "Requests that answer an older response, by type."),
		quarantine: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tributary_xds_quarantined",
			Help: "Resources that no client of a class is sent because its clients refuse them."}, []string{"class", "type"}),
		sendTime:     histogram("pilot_xds_send_time", "Seconds that a send took until the transport had it.", []float64{.0001, .001, .01, .1, 1, 10}),
		convergence:  histogram("pilot_proxy_convergence_time", "Seconds from the oldest event of a push until a stream was sent all of it.", convergenceBuckets),
		acknowledged: histogram("tributary_event_to_ack_seconds", "Seconds from the oldest event behind a response until the client acknowledged it.", lagBuckets),
		largest:      gauge("pilot_xds_recv_max", "Bytes of the largest request."),
	}
	sizes := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pilot_xds_config_size_bytes", Help: "Bytes of the responses sent.",
		Buckets: []float64{1, 10_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000}}, []string{"type"})
	pushTimes := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pilot_xds_push_time", Help: "Seconds to make and to send a response.",
		Buckets: []float64{.01, .1, 1, 3, 5, 10, 20, 30}}, []string{"type"})
	r.MustRegister(m.quarantine, sizes, pushTimes)
	for i, t := range typeLabels {
		m.types[i] = typeMetrics{
			pushes: m.pushes.WithLabelValues(t), rejects: m.rejects.WithLabelValues(t), bytes: m.bytes.WithLabelValues(t),
			expired: m.expired.WithLabelValues(t), size: sizes.WithLabelValues(t), pushTime: pushTimes.WithLabelValues(t),
		}
	}
	return m
}

func (m *Metrics) of(url string) *typeMetrics { return &m.types[rank(url)] }

func (m *Metrics) sent(r *response, bytes int, took time.Duration) {
	t := m.of(r.url)
	t.pushes.Inc()
	t.bytes.Add(float64(bytes))
	t.size.Observe(float64(bytes))
	m.sendTime.Observe(took.Seconds())
}

func (m *Metrics) refused(url string) { m.of(url).rejects.Inc() }

// received keeps the size of the largest request.
func (m *Metrics) received(bytes int) {
	for {
		seen := m.largestSeen.Load()
		if int64(bytes) <= seen {
			return
		}
		if m.largestSeen.CompareAndSwap(seen, int64(bytes)) {
			m.largest.Set(float64(bytes))
			return
		}
	}
}

// quarantined shows what is condemned, after what was.
func (m *Metrics) quarantined(before, after *map[charge]struct{}) {
	counts := map[[2]string]int{}
	label := func(c charge) [2]string { return [2]string{c.class.String(), typeLabels[rank(c.url)]} }
	if before != nil {
		for c := range *before {
			counts[label(c)] += 0
		}
	}
	for c := range *after {
		counts[label(c)]++
	}
	for l, n := range counts {
		m.quarantine.WithLabelValues(l[0], l[1]).Set(float64(n))
	}
}

func (m *Metrics) cacheHit() {
	if m != nil {
		m.cacheHits.Inc()
	}
}

func (m *Metrics) cacheMiss() {
	if m != nil {
		m.cacheMisses.Inc()
	}
}

func (m *Metrics) cacheTurned() {
	if m != nil {
		m.cacheTurns.Inc()
	}
}

// cacheBytes registers the gauge of the cache's size.
func (m *Metrics) cacheBytes(size func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "xds_cache_size", Help: "Bytes of the rendered resources that are kept."},
		func() float64 { return float64(size()) }))
}

// refusing registers the gauges of the streams that refuse, by type, when they are
// asked for.
func (m *Metrics) refusing(streams func(url string) int) {
	for i, url := range renderedTypes {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pilot_xds_" + typeLabels[i] + "_reject", Help: "Streams whose last " + ShortType(url) + " response was refused.",
		}, func() float64 { return float64(streams(url)) }))
	}
}

// byVersion registers the gauge of the streams by the version that clients say
// they are of, when it is asked for.
func (m *Metrics) byVersion(versions func() []string) {
	m.registry.MustRegister(&versionCollector{
		desc:     prometheus.NewDesc("pilot_xds", "Clients connected, by the version of Istio that they say they are of.", []string{"version"}, nil),
		versions: versions,
	})
}

// maxVersions bounds the label values that clients choose; the rest are "other".
const maxVersions = 20

type versionCollector struct {
	desc     *prometheus.Desc
	versions func() []string

	mu    sync.Mutex
	known []string // labels that were shown: they stay, at 0
}

// Describe implements prometheus.Collector.
func (c *versionCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *versionCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	list := c.versions()
	slices.Sort(list)
	for _, v := range list {
		v = versionLabel(v)
		if !slices.Contains(c.known, v) {
			if len(c.known) >= maxVersions {
				v = "other"
			} else {
				c.known = append(c.known, v)
			}
		}
		counts[v]++
	}
	for _, v := range c.known {
		counts[v] += 0
	}
	for v, n := range counts {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), v)
	}
}

// versionLabel returns a version as it may be shown: short, and of plain letters.
func versionLabel(v string) string {
	const longest = 40
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(".-_+", r)
	}
	switch {
	case v == "":
		return "unknown"
	case len(v) > longest || strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }):
		return "other"
	}
	return v
}
