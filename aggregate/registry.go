package aggregate

import (
	"iter"
	"time"

	"tributary/model"
)

// Registry is one source's services, endpoints and workloads. All calls are on
// the core's goroutine. clusters/kube has one for each cluster, serviceentry
// one for all ServiceEntries and WorkloadEntries.
type Registry interface {
	// Apply takes in a batch and marks what it touches; it derives nothing. Only
	// here and in Close are workloads announced, and Workloads yields them at
	// once: what other registries derive in this round sees them.
	Apply(b *model.Batch)
	// Derive reports to up every service that was marked since the last call.
	Derive(now time.Time, up model.XDSUpdater)
	// Next returns when Derive has something to do even if no batch comes; zero
	// if never.
	Next() time.Time
	// Synced reports, once an epoch, that every kind is complete.
	Synced() (model.Synced, bool)
	// Close takes back all that was announced; the next Derive takes back all
	// that was reported.
	Close()

	// AppendWorkloadHandler registers h for the registry's own workloads; those
	// that exist are announced at once.
	AppendWorkloadHandler(h model.WorkloadHandler)
	// WorkloadInstanceHandler is told of a workload of another registry.
	WorkloadInstanceHandler(old, new *model.WorkloadInstance)
	// AppendSelectorHandler registers h, which is told when a namespace gets
	// its first service that selects workloads of other registries, and when it
	// loses its last one.
	AppendSelectorHandler(h func(namespace string, selects bool))
	// Workloads yields the registry's own workloads of a namespace by name.
	Workloads(namespace string) iter.Seq[*model.WorkloadInstance]
}

// Sink receives each Delta that is not empty, on the core's goroutine.
type Sink interface {
	Apply(d model.Delta)
}
