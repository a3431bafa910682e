package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Quantiles of times in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// quantiles sorts times and returns their quantiles; zeros of none.
func quantiles(times []time.Duration) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		i := min(len(times)-1, int(q*float64(len(times))))
		return float64(times[i].Microseconds()) / 1000
	}
	return Quantiles{P50: at(.5), P99: at(.99), Max: at(1)}
}

// Result is what one run measured. Times are from just before a write to an API
// server; MB are millions of bytes.
type Result struct {
	Workload string    `json:"workload"`
	Server   string    `json:"server"`
	Protocol string    `json:"protocol"`
	Round    int       `json:"round"`
	Time     time.Time `json:"time"`

	Clusters  int  `json:"clusters"`
	Services  int  `json:"services"`
	Endpoints int  `json:"endpoints_per_service_and_cluster"`
	Pods      bool `json:"pods"`
	Streams   int  `json:"streams"`

	MemoryBefore float64 `json:"memory_before_streams_mb"`
	PeakBefore   float64 `json:"peak_memory_before_streams_mb"`

	SyncFirst float64 `json:"sync_first_stream_s"`
	SyncAll   float64 `json:"sync_all_streams_s"`
	SyncCPU   float64 `json:"sync_cpu_s"`
	SyncMB    float64 `json:"sync_mb"`

	Rate     float64   `json:"changes_per_s,omitempty"`
	Changes  int       `json:"changes,omitempty"`
	Lost     int       `json:"lost"` // changes that some stream never saw
	Write    Quantiles `json:"api_write_ms,omitzero"`
	First    Quantiles `json:"first_stream_ms,omitzero"`
	Last     Quantiles `json:"last_stream_ms,omitzero"`
	CPU      float64   `json:"cpu_ms_per_change,omitempty"`
	Messages int64     `json:"messages,omitempty"`
	MB       float64   `json:"change_mb,omitempty"`

	Storm    float64 `json:"reconnect_s,omitempty"` // until all streams are served again
	StormCPU float64 `json:"reconnect_cpu_s,omitempty"`
	StormMB  float64 `json:"reconnect_mb,omitempty"`

	Refused int64 `json:"refused,omitempty"` // clients that were turned away and came again

	// Idle is the part of the machine's CPUs that nobody used while changes came,
	// or clients came back. Where it is next to nothing, times say little.
	Idle float64 `json:"machine_idle_share"`

	Memory float64 `json:"memory_mb"`
	Peak   float64 `json:"peak_memory_mb"`

	Profiled bool `json:"profiled,omitempty"` // which costs CPU
}

// writeJSON writes one line for each result.
func writeJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	for i := range results {
		if err := e.Encode(&results[i]); err != nil {
			return fmt.Errorf("writing results: %w", err)
		}
	}
	return nil
}

// kind is what results of several rounds have in common.
type kind struct{ workload, server, protocol string }

func (r *Result) kind() kind { return kind{r.Workload, r.Server, r.Protocol} }

// medians returns for every kind the median of each figure, by itself, and in
// how many rounds it was measured.
func medians(results []Result) (byKind map[kind]Result, rounds map[kind]int) {
	groups := map[kind][]Result{}
	for _, r := range results {
		groups[r.kind()] = append(groups[r.kind()], r)
	}
	byKind, rounds = map[kind]Result{}, map[kind]int{}
	for k, group := range groups {
		m := group[0]
		for _, figure := range figures {
			values := make([]float64, len(group))
			for i := range group {
				values[i] = *figure(&group[i])
			}
			*figure(&m) = median(values)
		}
		m.Lost = slices.MaxFunc(group, func(a, b Result) int { return cmp.Compare(a.Lost, b.Lost) }).Lost
		byKind[k], rounds[k] = m, len(group)
	}
	return byKind, rounds
}

// figures are those of which medians are taken.
var figures = []func(*Result) *float64{
	func(r *Result) *float64 { return &r.MemoryBefore },
	func(r *Result) *float64 { return &r.PeakBefore },
	func(r *Result) *float64 { return &r.SyncAll },
	func(r *Result) *float64 { return &r.SyncCPU },
	func(r *Result) *float64 { return &r.Write.P50 },
	func(r *Result) *float64 { return &r.First.P50 },
	func(r *Result) *float64 { return &r.Last.P50 },
	func(r *Result) *float64 { return &r.Last.P99 },
	func(r *Result) *float64 { return &r.CPU },
	func(r *Result) *float64 { return &r.MB },
	func(r *Result) *float64 { return &r.Storm },
	func(r *Result) *float64 { return &r.StormCPU },
	func(r *Result) *float64 { return &r.StormMB },
	func(r *Result) *float64 { return &r.Memory },
	func(r *Result) *float64 { return &r.Peak },
	func(r *Result) *float64 { return &r.Idle },
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
