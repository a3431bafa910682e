package main

import (
	"fmt"
	"strings"
	"time"

	"tributary/test/bench/dataset"
)

// workload is what a server is measured with.
type workload struct {
	Name    string
	Data    dataset.Shape
	Streams int
	Rate    float64 // changes a second
	Changes int
	// Storm has all streams reconnect instead of changing endpoints: Resume with
	// what they hold, else with nothing.
	Storm, Resume bool
}

// small is the data of the workloads that are about time.
var small = dataset.Shape{Clusters: 2, Namespaces: 10, Services: 200, Endpoints: 10}

// presets are the workloads that have a name. Those with the same data stand
// together, as filling takes time.
var presets = []workload{
	{Name: "idle", Data: small, Streams: 50, Rate: 5, Changes: 100},
	{Name: "churn", Data: small, Streams: 200, Rate: 100, Changes: 2000},
	{Name: "fanout", Data: small, Streams: 1000, Rate: 2, Changes: 40},
	{Name: "storm", Data: small, Streams: 1000, Storm: true},
	{Name: "storm-resume", Data: small, Streams: 1000, Storm: true, Resume: true},
	{
		Name: "size", Streams: 10, Rate: 2, Changes: 40,
		Data: dataset.Shape{Clusters: 2, Namespaces: 10, Services: 1000, Endpoints: 100},
	},
	{
		Name: "pods", Streams: 10, Rate: 2, Changes: 40,
		Data: dataset.Shape{Clusters: 2, Namespaces: 10, Services: 1000, Endpoints: 10, Pods: true},
	},
}

// overrides change what a preset says; zero values change nothing.
type overrides struct {
	clusters, namespaces, services, endpoints, streams, changes int
	rate                                                        float64
	pods                                                        bool
}

// workloads returns the presets with the given names, in the order of presets.
func workloads(names string, o overrides) ([]workload, error) {
	asked := map[string]bool{}
	for n := range strings.SplitSeq(names, ",") {
		asked[n] = true
	}
	var chosen []workload
	var all []string
	for _, w := range presets {
		all = append(all, w.Name)
		if asked[w.Name] || asked["all"] {
			chosen = append(chosen, o.apply(w))
		}
		delete(asked, w.Name)
	}
	delete(asked, "all")
	for n := range asked {
		return nil, fmt.Errorf("-workload: there is no %q; there are all, %s", n, strings.Join(all, ", "))
	}
	return chosen, nil
}

func (o overrides) apply(w workload) workload {
	for value, to := range map[*int]*int{
		&o.clusters: &w.Data.Clusters, &o.namespaces: &w.Data.Namespaces, &o.services: &w.Data.Services,
		&o.endpoints: &w.Data.Endpoints, &o.streams: &w.Streams, &o.changes: &w.Changes,
	} {
		if *value != 0 {
			*to = *value
		}
	}
	if o.rate != 0 {
		w.Rate = o.rate
	}
	w.Data.Pods = w.Data.Pods || o.pods
	return w
}

// duration is how long the changes of a workload take.
func (w workload) duration() time.Duration {
	return time.Duration(float64(w.Changes) / w.Rate * float64(time.Second))
}
