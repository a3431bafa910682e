package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// column is one figure in the table.
type column struct {
	title string
	value func(*Result) float64
	whole bool // a ratio would say nothing
}

// idleColumn tells how far the other columns can be trusted.
var idleColumn = column{title: "idle", value: func(r *Result) float64 { return r.Idle }, whole: true}

var changeColumns = []column{
	{title: "p50 ms", value: func(r *Result) float64 { return r.Last.P50 }},
	{title: "p99 ms", value: func(r *Result) float64 { return r.Last.P99 }},
	{title: "CPU ms", value: func(r *Result) float64 { return r.CPU }},
	{title: "MB before", value: func(r *Result) float64 { return r.MemoryBefore }},
	{title: "MB end", value: func(r *Result) float64 { return r.Memory }},
	{title: "MB peak", value: func(r *Result) float64 { return r.Peak }},
	{title: "sync s", value: func(r *Result) float64 { return r.SyncAll }},
	{title: "sync CPU s", value: func(r *Result) float64 { return r.SyncCPU }},
	idleColumn,
}

var stormColumns = []column{
	{title: "back s", value: func(r *Result) float64 { return r.Storm }},
	{title: "CPU s", value: func(r *Result) float64 { return r.StormCPU }},
	{title: "sent MB", value: func(r *Result) float64 { return r.StormMB }},
	{title: "MB before", value: func(r *Result) float64 { return r.MemoryBefore }},
	{title: "MB end", value: func(r *Result) float64 { return r.Memory }},
	{title: "MB peak", value: func(r *Result) float64 { return r.Peak }},
	{title: "sync s", value: func(r *Result) float64 { return r.SyncAll }},
	idleColumn,
}

// writeTable writes the medians of all results, and each figure as a multiple
// of the floor's and of istiod's.
func writeTable(w io.Writer, chosen []workload, results []Result) error {
	byKind, rounds := medians(results)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, load := range chosen {
		columns := changeColumns
		fmt.Fprintf(t, "%s: %d services x %d endpoints x %d clusters, %d streams", load.Name,
			load.Data.Services, load.Data.Endpoints, load.Data.Clusters, load.Streams)
		if load.Data.Pods {
			fmt.Fprint(t, ", with pods")
		}
		switch {
		case load.Resume:
			columns = stormColumns
			fmt.Fprint(t, ", all come back within 1 s with what they hold")
		case load.Storm:
			columns = stormColumns
			fmt.Fprint(t, ", all come back within 1 s with nothing")
		default:
			fmt.Fprintf(t, ", %d changes at %g/s", load.Changes, load.Rate)
		}
		fmt.Fprint(t, "\nserver\trounds\t")
		for _, c := range columns {
			fmt.Fprintf(t, "%s\t", c.title)
		}
		fmt.Fprintln(t, "lost\t")
		for _, k := range kinds(results, load.Name) {
			r := byKind[k]
			fmt.Fprintf(t, "%s %s\t%d\t", k.server, k.protocol, rounds[k])
			for _, c := range columns {
				fmt.Fprintf(t, "%.*f\t", decimals(c.value(&r)), c.value(&r))
			}
			fmt.Fprintf(t, "%d\t\n", r.Lost)
		}
		for _, k := range kinds(results, load.Name) {
			for _, base := range []kind{{load.Name, "floor", "delta"}, {load.Name, "istiod", k.protocol}, {load.Name, k.server, "delta"}} {
				b, ok := byKind[base]
				if !ok || k.server == "floor" || k.server == "istiod" && base.server != "floor" || base == k {
					continue
				}
				r := byKind[k]
				fmt.Fprintf(t, "%s %s / %s %s\t\t", k.server, k.protocol, base.server, base.protocol)
				for _, c := range columns {
					if d := c.value(&b); d > 0 && !c.whole {
						fmt.Fprintf(t, "%.2fx\t", c.value(&r)/d)
					} else {
						fmt.Fprint(t, "-\t")
					}
				}
				fmt.Fprint(t, "\t\n")
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// kinds returns what was measured of a workload, in the order of the servers.
func kinds(results []Result, workload string) []kind {
	var out []kind
	for _, name := range serverNames {
		for _, protocol := range protocols {
			k := kind{workload, name, protocol}
			if slices.ContainsFunc(results, func(r Result) bool { return r.kind() == k }) {
				out = append(out, k)
			}
		}
	}
	return out
}

func decimals(v float64) int {
	switch {
	case v >= 100:
		return 0
	case v >= 10:
		return 1
	}
	return 2
}
