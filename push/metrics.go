package push

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the push decision. A nil *Metrics records nothing.
type Metrics struct {
	pushes, changes, grown prometheus.Counter
	held                   prometheus.Histogram
	distance, pending      prometheus.Gauge
	released               prometheus.Histogram
	lastGrown              uint64
}

// NewMetrics registers the metrics at r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	buckets := []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5}
	m := &Metrics{
		pushes:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tributary_pushes_total", Help: "Snapshots released to the streams."}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{Name: "tributary_push_changes_total", Help: "Changed services in the released snapshots, merged or not."}),
		grown:   prometheus.NewCounter(prometheus.CounterOpts{Name: "tributary_push_hold_grown_total", Help: "Pushes held beyond debounceMax because one push costs more."}),
		held: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pilot_debounce_time", Buckets: buckets,
			Help: "Seconds from the first change of a push until it was released."}),
		distance: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tributary_push_hold_seconds", Help: "Distance of pushes under load, by their measured cost."}),
		pending:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "tributary_push_pending_changes", Help: "Changed services that wait to be released."}),
		released: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tributary_release_lag_seconds", Buckets: buckets,
			Help: "Seconds from the arrival of the oldest event of a push until it was released."}),
	}
	r.MustRegister(m.pushes, m.changes, m.grown, m.held, m.distance, m.pending, m.released)
	return m
}

// offered counts changes that wait.
func (m *Metrics) offered(changes int) {
	if m != nil {
		m.pending.Add(float64(changes))
	}
}

func (m *Metrics) pushed(changes int, held time.Duration, oldest time.Time, distance time.Duration, grown uint64) {
	if m == nil {
		return
	}
	m.pushes.Inc()
	m.changes.Add(float64(changes))
	m.pending.Set(0)
	m.held.Observe(held.Seconds())
	m.distance.Set(distance.Seconds())
	m.grown.Add(float64(grown - m.lastGrown))
	m.lastGrown = grown
	if !oldest.IsZero() {
		m.released.Observe(time.Since(oldest).Seconds())
	}
}
