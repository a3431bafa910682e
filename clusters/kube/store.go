package kube

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"tributary/model"
)

// maxBurst is how many changes one batch of a watch holds at most. Larger ones
// would delay the first of them for the sake of the last.
const maxBurst = 16

// queueLength is how many changes may wait for the core before the watch is no
// longer read. The API server then buffers, and ends the watch if it must.
const queueLength = 64

// feed carries what one reflector says of one kind to the core, in order. The
// reflector converts each object as it comes and drops it; a goroutine of the
// feed's own hands over what is there, so that a burst is one batch.
type feed struct {
	kind    model.Kind
	source  model.ShardKey
	epoch   uint64
	convert converter
	health  *health
	done    <-chan struct{} // closed when the watcher ends
	queue   chan item

	// Of the reflector's goroutine: what ends a watch on which nothing comes.
	idle      *time.Timer
	watchIdle time.Duration

	count func(kind, event string) // told of each event
}

var (
	_ cache.ReflectorStore         = (*feed)(nil)
	_ cache.ReflectorBookmarkStore = (*feed)(nil)
)

// item is one change, or a page of a list.
type item struct {
	name  model.NamespacedName // of the one row that a change has
	batch model.Batch
	taken chan<- struct{} // of a page: told once the core has it
}

// batch returns an empty batch of this feed.
func (f *feed) batch(now time.Time) model.Batch {
	return model.Batch{Source: f.source, Epoch: f.epoch, Kind: f.kind, Received: now}
}

// page hands over one page of a list and waits until the core has it: the next
// page is asked for only then, so that memory never holds two.
func (f *feed) page(ctx context.Context, b model.Batch) error {
	taken := make(chan struct{})
	select {
	case f.queue <- item{batch: b, taken: taken}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// change queues the change of one object: its row, or its deletion if it went
// or no longer makes a row.
func (f *feed) change(object any, gone bool) {
	m, err := meta.Accessor(object)
	if err != nil {
		return // the reflector lets through only objects of the kind it was made for
	}
	now := time.Now()
	it := item{name: model.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, batch: f.batch(now)}
	dropped := 0
	if !gone {
		var ok bool
		ok, dropped = f.convert.add(&it.batch, object)
		gone = !ok
	}
	if gone {
		it.batch.Deletes = []model.NamespacedName{it.name}
	}
	f.health.unused(f.kind, m, dropped)
	f.health.heard(f.kind, now, m.GetResourceVersion())
	f.listening(false)
	defer f.listening(true)
	select {
	case f.queue <- it:
	case <-f.done:
	}
}

// send hands what is queued to out until ctx ends or out fails.
func (f *feed) send(ctx context.Context, out func(context.Context, model.Batch) error) error {
	var next item
	waiting := false // next was taken from the queue but not handed over
	burst := make([]item, 0, maxBurst)
	for {
		if !waiting {
			select {
			case next = <-f.queue:
			case <-ctx.Done():
				return nil
			}
		}
		waiting = false
		if next.taken != nil {
			if err := out(ctx, next.batch); err != nil {
				return err
			}
			close(next.taken)
			continue
		}
		burst = append(burst[:0], next)
	more:
		for len(burst) < maxBurst {
			select {
			case next = <-f.queue:
				if next.taken != nil {
					waiting = true
					break more
				}
				burst = append(burst, next)
			default:
				break more
			}
		}
		if err := out(ctx, merge(burst)); err != nil {
			return err
		}
		clear(burst)
	}
}

// merge makes one batch of a burst of changes. Of several changes of one object
// the last is kept, as a batch says one thing of each.
func merge(burst []item) model.Batch {
	b := burst[0].batch
	b.Services, b.Slices, b.Workloads, b.Nodes, b.Namespaces, b.Deletes = nil, nil, nil, nil, nil, nil
	for i := range burst {
		it := &burst[i]
		b.Received = it.batch.Received
		if slices.ContainsFunc(burst[i+1:], func(later item) bool { return later.name == it.name }) {
			continue
		}
		b.Services = append(b.Services, it.batch.Services...)
		b.Slices = append(b.Slices, it.batch.Slices...)
		b.Workloads = append(b.Workloads, it.batch.Workloads...)
		b.Nodes = append(b.Nodes, it.batch.Nodes...)
		b.Namespaces = append(b.Namespaces, it.batch.Namespaces...)
		b.Deletes = append(b.Deletes, it.batch.Deletes...)
	}
	return b
}

// istioKinds are the kinds in the words of Istio's pilot_k8s_reg_events.
var istioKinds = [model.Kinds]string{"Services", "EndpointSlice", "Pods", "Nodes", "Namespaces"}

func (f *feed) event(object any, what string) {
	f.count(istioKinds[f.kind], what)
	f.change(object, what == "delete")
}

// Add is called by the reflector for an object that is new.
func (f *feed) Add(object any) error { f.event(object, "add"); return nil }

// Update is called by the reflector for an object that changed.
func (f *feed) Update(object any) error { f.event(object, "update"); return nil }

// Delete is called by the reflector for an object that went.
func (f *feed) Delete(object any) error { f.event(object, "delete"); return nil }

// Bookmark is called by the reflector when the API server says that nothing
// else has happened up to a version.
func (f *feed) Bookmark(version string) error {
	f.health.heard(f.kind, time.Now(), version)
	f.listening(true)
	return nil
}

// Replace is called by the reflector with what our list returned, which is
// always empty: the pages have been handed over already, the last one with the
// end of the snapshot.
func (f *feed) Replace([]any, string) error { return nil }

// Resync is never asked for.
func (f *feed) Resync() error { return nil }
