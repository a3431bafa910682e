package aggregate_test

import (
	"fmt"
	"testing"

	"tributary/model"
)

// TestDrainTakesPortions: a share is what it says, for one service of many
// workloads and for many services of one workload each; nothing that has left
// comes back with a smaller share, and what is known of a cluster stays known.
func TestDrainTakesPortions(t *testing.T) {
	w := newWorld()
	source := kubeSources[0]
	services, slices, pods := w.batch(source, model.KindService, 1), w.batch(source, model.KindEndpointSlice, 1), w.batch(source, model.KindPod, 1)
	add := func(service string, workloads int) {
		services.Services = append(services.Services, &model.Service{
			Key: model.ServiceKey{Host: service + ".n.svc.cluster.local", Namespace: "n"}, Registry: source, Name: service,
			Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
		})
		for i := range workloads {
			pod := webPod(fmt.Sprint(service, "-", i), len(pods.Workloads)%250, model.Ready)
			pods.Workloads = append(pods.Workloads, pod)
			s := slice(pod.Name, endpoint(pod.Name, len(pods.Workloads)%250))
			s.Service = service
			slices.Slices = append(slices.Slices, s)
		}
	}
	add("big", 100)
	for i := range 200 {
		add(fmt.Sprint("small", i), 1)
	}
	w.round(t, services, slices, pods)
	before := w.store.Load()

	served := func() (big, small map[string]bool) {
		big, small = map[string]bool{}, map[string]bool{}
		for svc := range w.store.Load().Services() {
			in := small
			if svc.Definition.Winner.Name == "big" {
				in = big
			}
			for c := range svc.Candidates(svc.Definition.Ports[0]) {
				if c.Served() {
					in[c.Endpoint.Workload.Name] = true
				}
			}
		}
		return big, small
	}
	lastBig, lastSmall := served()
	if len(lastBig) != 100 || len(lastSmall) != 200 {
		t.Fatalf("%d and %d are served at first", len(lastBig), len(lastSmall))
	}
	step := func(share uint8, epoch uint64) model.Delta {
		b := w.batch(source, 0, epoch)
		b.Share = share
		return w.round(t, b)
	}
	for _, share := range []uint8{75, 50, 25} {
		d := step(share, 1)
		for _, s := range d.Services {
			if s.Push != model.EndpointsPush {
				t.Errorf("at %d%%: push %v of %v", share, s.Push, s.Key)
			}
		}
		if again := step(share, 1); !again.Empty() {
			t.Errorf("the same share again changes %d services", len(again.Services))
		}
		big, small := served()
		if n := len(big); n < int(share) || n > int(share)+1 {
			t.Errorf("at %d%% %d of 100 workloads are served", share, n)
		}
		if n := len(small); n < 2*int(share)-20 || n > 2*int(share)+20 {
			t.Errorf("at %d%% %d of 200 small services are served", share, n)
		}
		for _, pair := range [][2]map[string]bool{{big, lastBig}, {small, lastSmall}} {
			for name := range pair[0] {
				if !pair[1][name] {
					t.Errorf("at %d%% %s came back", share, name)
				}
			}
		}
		lastBig, lastSmall = big, small
		w.settle(t)
	}
	if d := step(90, 0); !d.Empty() {
		t.Error("an epoch that is over drains")
	}
	if d := w.core.Round(w.now, []model.Batch{{Source: kubeSources[1], Epoch: 1, Share: 50}}); !d.Empty() {
		t.Error("a cluster that is not there drains")
	}

	// It is undone, by a new epoch too: all is as it was.
	step(100, 2)
	for svc := range before.Services() {
		if now := w.store.Load().Service(svc.Key); viewText(now) != viewText(svc) {
			t.Errorf("after the drain:\n%s\nbefore:\n%s", viewText(now), viewText(svc))
		}
	}

	// A removal ends the drain: the next cluster of that ID is whole.
	step(25, 2)
	removal := w.batch(source, 0, 2)
	removal.Removed = true
	services.Epoch, slices.Epoch, pods.Epoch = 3, 3, 3
	w.round(t, removal, services, slices, pods)
	if big, small := served(); len(big) != 100 || len(small) != 200 {
		t.Errorf("%d and %d are served of the next cluster", len(big), len(small))
	}
	w.settle(t)
}
