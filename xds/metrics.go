package xds

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the server. Names that start with pilot_ mean what they mean in
// Istio.
type Metrics struct {
	registry prometheus.Registerer

	streams                                             prometheus.Gauge
	turnedAway, garbage, invalid, silent, writeTimeouts prometheus.Counter
	ackTimeouts, internalErrors, cacheHits, cacheMisses prometheus.Counter
	cacheTurns                                          prometheus.Counter
	pushes, rejects, bytes                              *prometheus.CounterVec
	sendTime                                            prometheus.Histogram
}

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
	m := &Metrics{
		registry:       r,
		streams:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "pilot_xds", Help: "Open xDS streams."}),
		turnedAway:     counter("tributary_xds_streams_refused_total", "Streams refused because too many are open."),
		garbage:        counter("tributary_xds_unreadable_requests_total", "Requests that could not be decoded or were too large."),
		invalid:        counter("tributary_xds_invalid_requests_total", "Requests that break the protocol or a limit; each ends its stream."),
		silent:         counter("tributary_xds_silent_streams_total", "Streams ended because no request came."),
		writeTimeouts:  counter("pilot_xds_write_timeout", "Streams ended because the client did not read."),
		ackTimeouts:    counter("tributary_xds_ack_timeouts_total", "Streams ended because the client neither acknowledged nor refused a response."),
		internalErrors: counter("pilot_total_xds_internal_errors", "Resources that could not be rendered."),
		cacheHits:      counter("xds_cache_reads", "Rendered resources that were found in the cache."),
		cacheMisses:    counter("tributary_xds_renders_total", "Resources that were rendered."),
		cacheTurns:     counter("xds_cache_evictions", "Generations of the cache that were let go."),
		pushes:         vec("pilot_xds_pushes", "Responses sent, by type."),
		rejects:        vec("pilot_total_xds_rejects", "Responses that clients refused, by type."),
		bytes:          vec("tributary_xds_sent_bytes_total", "Bytes of the responses sent, by type."),
		sendTime: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pilot_xds_send_time", Help: "Seconds that a send took until the transport had it.",
			Buckets: []float64{.0001, .001, .01, .1, 1, 10}}),
	}
	r.MustRegister(m.streams, m.sendTime)
	return m
}

func (m *Metrics) sent(r *response, bytes int, took time.Duration) {
	t := ShortType(r.url)
	if !rendered(r.url) {
		t = "other" // a client chooses these, so they must not become labels
	}
	m.pushes.WithLabelValues(t).Inc()
	m.bytes.WithLabelValues(t).Add(float64(bytes))
	m.sendTime.Observe(took.Seconds())
}

func (m *Metrics) refused(url string) {
	t := ShortType(url)
	if !rendered(url) {
		t = "other"
	}
	m.rejects.WithLabelValues(t).Inc()
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
