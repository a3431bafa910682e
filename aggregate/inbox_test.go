package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tributary/aggregate"
	"tributary/clusters/kube"
	"tributary/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func deletes(source model.ShardKey, n int, mark uint64) model.Batch {
	return model.Batch{Source: source, Epoch: mark, Deletes: make([]model.NamespacedName, n)}
}

// taken renders batches as cluster and epoch.
func taken(batches []model.Batch) string {
	var names []string
	for _, b := range batches {
		names = append(names, fmt.Sprintf("%s%d", b.Source.Cluster, b.Epoch))
	}
	return strings.Join(names, " ")
}

func put(t *testing.T, in *aggregate.Inbox, b model.Batch) {
	t.Helper()
	if err := in.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestInboxTakesInTurn(t *testing.T) {
	a, b, c := kubeSources[0], kubeSources[1], kubeSources[2]
	in := aggregate.NewInbox(1000)
	for i := range uint64(5) {
		put(t, in, deletes(a, 10, i+1))
	}
	put(t, in, deletes(b, 1, 1))
	put(t, in, deletes(b, 1, 2))
	put(t, in, deletes(c, 0, 1))
	batches, more := in.Take(30)
	expect(t, "first", taken(batches), "a1 b1 c1 a2 b2 a3")
	if !more {
		t.Fatal("a4 and a5 are left")
	}
	if n := in.Waiting(); len(n) != 1 || n[a] != 20 {
		t.Fatalf("waiting %v", n)
	}
	put(t, in, deletes(b, 1, 3))
	batches, more = in.Take(11)
	expect(t, "b came later than a4", taken(batches), "a4 b3")
	if !more {
		t.Fatal("a5 is left")
	}
	batches, more = in.Take(1)
	expect(t, "last", taken(batches), "a5")
	if batches, again := in.Take(100); more || again || len(batches) != 0 {
		t.Fatal("something is left")
	}
	put(t, in, model.Batch{Source: a, Removed: true})
	put(t, in, deletes(a, 1, 2))
	batches, _ = in.Take(100)
	if len(batches) != 2 || !batches[0].Removed || aggregate.Queues(in) != 0 {
		t.Fatalf("%v, %d queues", batches, aggregate.Queues(in))
	}
}

func TestInboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := kubeSources[0], kubeSources[1]
		in := aggregate.NewInbox(10)
		put(t, in, deletes(a, 25, 1)) // one is let in whatever its size
		result := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() { result <- in.Put(t.Context(), deletes(a, 6, 2)) }()
		}
		synctest.Wait()
		go func() { result <- in.Put(ctx, deletes(a, 1, 9)) }()
		put(t, in, deletes(b, 1, 1)) // others do not wait
		synctest.Wait()
		if len(result) != 0 {
			t.Fatal("Put did not wait")
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		batches, _ := in.Take(1)
		expect(t, "first", taken(batches), "a1")
		synctest.Wait()
		if len(result) != 2 {
			t.Fatalf("%d of 2 went on: 6 rows of 10 leave room for a second batch", len(result))
		}
		if n := in.Waiting(); n[a] != 12 {
			t.Fatalf("waiting %v", n)
		}
		batches, _ = in.Take(100)
		expect(t, "rest", taken(batches), "b1 a2 a2")
		select {
		case <-in.Wake():
		default:
			t.Fatal("no wake")
		}
	})
}

// A source that never pauses delays the others by one of its batches.
func TestNoisySourceDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noisy, quiet := kubeSources[0], kubeSources[1]
		in := aggregate.NewInbox(100)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for in.Put(ctx, deletes(noisy, 10, 1)) == nil {
			}
		}()
		synctest.Wait()
		for i := range uint64(50) {
			put(t, in, deletes(quiet, 1, i+1))
			batches, more := in.Take(32)
			if !more || !strings.Contains(taken(batches), fmt.Sprint("b", i+1)) {
				t.Fatalf("%s: the quiet source waits", taken(batches))
			}
			synctest.Wait()
		}
		cancel()
	})
}

type sink chan model.Delta

func (s sink) Apply(d model.Delta) { s <- d }

// Run is woken by batches and by the ends of holds, ends with its context, and
// hands out no empty Delta.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var core *aggregate.Aggregator
		core = aggregate.New("a", func(key model.ShardKey) aggregate.Registry {
			return kube.NewRegistry(key.Cluster, kube.Rules{}, core.WorkloadEntries)
		})
		in, out := aggregate.NewInbox(100), make(sink, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { core.Run(ctx, in, out); close(done) }()
		say := func(b model.Batch) {
			b.Source, b.Epoch, b.Received = moveSource, 1, time.Now()
			put(t, in, b)
			synctest.Wait()
		}
		start := time.Now()
		say(model.Batch{Kind: model.KindPod, Workloads: []*model.WorkloadInstance{webPod("p1", 1, model.Ready)}})
		say(model.Batch{Kind: model.KindEndpointSlice, Slices: []*model.EndpointSlice{slice("s1", endpoint("p1", 1))}})
		if len(out) != 0 {
			t.Fatal("a delta without a Service")
		}
		say(model.Batch{Kind: model.KindService, Services: []*model.Service{webService()}})
		if d := <-out; !d.Received.Equal(start) || len(d.Services) != 1 || d.Services[0].Push != model.ServicePush {
			t.Fatalf("%+v", d)
		}
		time.Sleep(time.Minute)
		say(model.Batch{Kind: model.KindEndpointSlice, Slices: []*model.EndpointSlice{slice("s1")}})
		if d := <-out; len(d.Services[0].Shards) != 1 {
			t.Fatalf("not held: %+v", d)
		}
		held := time.Now()
		// The pod was all that the service had: its account goes with it.
		if d := <-out; len(d.Services[0].Shards) != 0 || time.Since(held) != kube.MoveHold || d.Services[0].Push != model.ServicePush {
			t.Fatalf("after %v: %+v", time.Since(held), d)
		}
		time.Sleep(3 * time.Hour) // idle
		if len(out) != 0 {
			t.Fatal("a delta out of nothing")
		}
		cancel()
		<-done
	})
}
