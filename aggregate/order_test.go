package aggregate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tributary/clusters/kube"
	"tributary/model"
)

// TestOrderFree is the second proof: any interleaving that keeps the order per
// source and kind, in any rounds and any order of registration, ends in the
// same snapshot.
func TestOrderFree(t *testing.T) { rapid.Check(t, orderFree) }

func orderFree(t *rapid.T) {
	// Epochs and removals count for a source as a whole, so they are left out
	// here: their order against other kinds does matter.
	script := drawWorld(t)
	for range rapid.IntRange(1, 25).Draw(t, "events") {
		source := rapid.SampledFrom(allSources).Draw(t, "source")
		kind := rapid.SampledFrom(kindsOf(source)).Draw(t, "kind")
		if source.Provider == model.Kubernetes && rapid.IntRange(0, 5).Draw(t, "snapshot") == 0 {
			script.relist(t, source, kind, 1, nil, true)
		} else {
			script.put(script.change(t, source, kind, 1))
		}
	}
	var first map[string]string
	for range 3 {
		w := newWorldWith(script.discovery)
		for k, q := range script.queues {
			w.queues[k] = q
		}
		for len(w.queues) > 0 {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond)
			w.round(t, w.take(t)...)
		}
		w.now = w.now.Add(kube.MoveHold)
		w.round(t)
		view := viewOf(w.store.Load())
		for svc := range w.store.Load().Services() {
			view[svc.Key.String()] += "\n" + definitionText(svc.Definition) + shardsText(svc.Shards)
		}
		if first == nil {
			first = view
		} else if diff := difference(view, first); diff != "" {
			t.Fatalf("another order ends in another snapshot:\n%s", diff)
		}
	}
}
