package main

import (
	"strings"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i)*time.Millisecond)
	}
	if got, want := quantiles(times), (Quantiles{P50: 51, P99: 100, Max: 100}); got != want {
		t.Errorf("quantiles = %v, want %v", got, want)
	}
	if got := quantiles(nil); got != (Quantiles{}) {
		t.Errorf("quantiles of nothing = %v", got)
	}
}

func TestTheTableShowsMediansAndRatios(t *testing.T) {
	load := workload{Name: "idle", Data: small, Streams: 50, Rate: 5, Changes: 100}
	var results []Result
	for round, p50 := range []float64{4, 100, 6} {
		results = append(results,
			Result{Workload: "idle", Server: "floor", Protocol: "delta", Round: round, Last: Quantiles{P50: p50}},
			Result{Workload: "idle", Server: "istiod", Protocol: "sotw", Round: round, Last: Quantiles{P50: 20 * p50}, Lost: round},
			Result{Workload: "idle", Server: "tributary", Protocol: "sotw", Round: round, Last: Quantiles{P50: 2 * p50}})
	}
	var b strings.Builder
	if err := writeTable(&b, []workload{load}, results); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		if f := strings.Fields(line); len(f) > 4 && (strings.Contains(line, " 3 ") || strings.Contains(line, "/ ")) {
			got = append(got, strings.Join(f[:5], " "))
		}
	}
	want := []string{
		"floor delta 3 6.00 0.00", "tributary sotw 3 12.0 0.00", "istiod sotw 3 120 0.00",
		"tributary sotw / floor delta", "tributary sotw / istiod sotw", "istiod sotw / floor delta",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the table:\n%s\nis read as\n%s\nwant\n%s", b.String(), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(b.String(), "2.00x") || !strings.Contains(b.String(), "0.10x") {
		t.Errorf("no ratios 2.00x and 0.10x in\n%s", b.String())
	}
}

func TestWorkloads(t *testing.T) {
	chosen, err := workloads("churn,idle", overrides{streams: 7, pods: true})
	if err != nil || len(chosen) != 2 || chosen[0].Name != "idle" || chosen[1].Streams != 7 || !chosen[1].Data.Pods || chosen[1].Rate != 100 {
		t.Errorf("workloads = %+v, %v", chosen, err)
	}
	if _, err := workloads("idel", overrides{}); err == nil || !strings.Contains(err.Error(), `"idel"`) {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestProcess(t *testing.T) {
	p := process(1)
	if _, err := p.cpu(); err != nil {
		t.Error(err)
	}
	now, peak, err := p.memory()
	if err != nil || now <= 0 || peak < now {
		t.Errorf("memory = %v, %v, %v", now, peak, err)
	}
}
