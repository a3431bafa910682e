package aggregate_test

import (
	"testing"

	"tributary/model"
)

// TestOtherIncarnation: a slice that names another incarnation of a pod is held
// back until that one is there.
func TestOtherIncarnation(t *testing.T) {
	f := newFleet(t)
	e := endpoint("p1", 1)
	e.UID = uids[0]
	f.say(slice("s1", e, endpoint("p2", 2)))
	f.want("not there yet", 2, 3)
	f.settle(t)
	p := webPod("p1", 1, model.Ready)
	p.UID = uids[0]
	f.say(p)
	f.want("there", 1, 2, 3)
	f.settle(t)
}

// TestRotationAfterAChangeThatWasUndone: the rows of two epochs mean the same but
// point to different instances of a pod; a change after the rotation must still
// reach the slices.
func TestRotationAfterAChangeThatWasUndone(t *testing.T) {
	f := newFleet(t)
	said := map[model.Kind]model.Batch{}
	for _, k := range kindsOf(moveSource) {
		b := f.batch(moveSource, k, 2)
		b.SnapshotStart, b.SnapshotEnd = true, true
		for _, row := range f.said(moveSource, k) {
			f.add(&b, f.again(row))
		}
		said[k] = b
	}
	changed := func(label string) *model.WorkloadInstance {
		p := webPod("p1", 1, model.Ready)
		p.Labels = model.NewLabels(map[string]string{"app": label})
		return p
	}
	f.round(t, said[model.KindNode], said[model.KindNamespace], said[model.KindPod])
	f.say(changed("other"))
	f.say(changed("web"))
	f.round(t, said[model.KindEndpointSlice])
	if d := f.round(t, said[model.KindService]); len(d.Services) > 0 {
		t.Fatalf("the same under another epoch: %+v", d)
	}
	f.epochs[moveSource] = 2
	f.settle(t)
	f.say(changed("third"))
	f.settle(t)
	f.say(gone{model.KindPod, "p1"})
	f.settle(t)
	f.want("p1 went", 2, 3)
}
