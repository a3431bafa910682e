package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// print writes the results of one shape. Of each kind of change it shows the
// median at every size, how the largest compares with the smallest, the same of
// the fastest runs (on a machine that does other things they are closer to the
// truth), what bare rows take and, at the largest size, what the collector adds.
func print(s shape, results []result) {
	fmt.Printf("\n## %s: %d labels a pod, %d of them its own", s.name, s.labels, s.ownLabels)
	if s.labelSets < podsPerNS {
		fmt.Printf(", %d label sets for %d pods", s.labelSets, podsPerNS)
	}
	if s.big > 0 {
		fmt.Printf(", and a service of %d endpoints", s.big*perSlice)
	}
	fmt.Print("\n\n")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tendpoints\theap MB\tafter changes\tobjects\tRSS MB\tpeak RSS, load\tpeak RSS, changes\tGC cycle, CPU\tload, CPU\tadded cluster MB")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%d\t%.0f\t%.0f\t%.0f\t%.1f ms\t%.1f s\t%.2f\n", r.Core, r.Size, mb(r.Loaded.Heap), mb(r.After.Heap),
			r.Loaded.Objects, mb(r.Loaded.RSS), mb(r.LoadPeak), mb(r.RunPeak), float64(r.Cycle)/float64(time.Millisecond), r.LoadCPU.Seconds(), mb(r.Added.Heap))
	}
	_ = w.Flush()

	fmt.Println()
	w = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "one change")
	for _, r := range results {
		if r.Core == "core" {
			fmt.Fprintf(w, "\t%d", r.Size)
		}
	}
	fmt.Fprintln(w, "\tgrowth\tof the fastest runs\tbare rows\tallocated\tGC time\tGC share\tcycles, other threads")
	var all []string
	for _, r := range results {
		for _, m := range r.Changes {
			if !slices.Contains(all, m.Name) {
				all = append(all, m.Name)
			}
		}
	}
	for _, name := range all {
		fmt.Fprint(w, name)
		var first, last measured
		var bare string
		for _, r := range results {
			i := slices.IndexFunc(r.Changes, func(m measured) bool { return m.Name == name })
			if i < 0 {
				continue
			}
			m := r.Changes[i]
			if r.Core != "core" {
				bare = micros(m.Time)
				continue
			}
			fmt.Fprintf(w, "\t%s", micros(m.Time))
			if first.Name == "" {
				first = m
			}
			last = m
		}
		fmt.Fprintf(w, "\t%.1fx\t%s to %s, %.1fx\t%s\t%d B\t%s\t%.0f%%\t%d, %.0f%%\n", ratio(last.Time, first.Time), micros(first.Low), micros(last.Low), ratio(last.Low, first.Low), bare, last.Bytes, micros(last.GC),
			100*float64(last.GC)/float64(max(last.GC+last.Time, 1)), last.Cycles, 100*last.Others)
	}
	_ = w.Flush()
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

func mb(n int64) float64 { return float64(n) / (1 << 20) }

func micros(d time.Duration) string {
	return fmt.Sprintf("%.2f us", float64(d)/float64(time.Microsecond))
}
