package push

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"tributary/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a pusher with its own clock of CPU time; end ends it.
func start(t *testing.T) (p *Pusher, cpu *cpuClock, end func()) {
	t.Helper()
	p = NewPusher(0, 0, nil)
	p.hold.CPUs, p.hold.Share = 2, 2*DefaultShare // whatever the machine has
	cpu = &cpuClock{}
	p.cpu = func() time.Duration { return time.Duration(cpu.used.Load()) }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	return p, cpu, func() { cancel(); wg.Wait() }
}

// cpuClock is the CPU time that a process has used.
type cpuClock struct{ used atomic.Int64 }

func (c *cpuClock) use(d time.Duration) { c.used.Add(int64(d)) }

func snapshot(revision uint64) *shards.Snapshot { return &shards.Snapshot{Revision: revision} }

// waitFor returns how long it took until revision was released.
func waitFor(t *testing.T, p *Pusher, wake <-chan struct{}, revision uint64) time.Duration {
	t.Helper()
	begin := time.Now()
	for s := p.Released(); s == nil || s.Revision < revision; s = p.Released() {
		select {
		case <-wake:
		case <-time.After(time.Minute): // of the bubble's time
			t.Fatalf("revision %d was not released", revision)
		}
	}
	return time.Since(begin)
}

func TestPusherReleasesThenWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, end := start(t)
		defer end()
		if p.Released() != nil {
			t.Fatal("something was released before anything was offered")
		}
		wake, cancel := p.Subscribe()
		defer cancel()
		for revision := uint64(1); revision <= 3; revision++ {
			p.Offer(snapshot(revision), 1, time.Now())
			if s := p.Released(); s != nil && s.Revision == revision {
				t.Fatal("a change was released without a hold")
			}
			if took := waitFor(t, p, wake, revision); took != DefaultSettle {
				t.Errorf("revision %d took %v, want the settle", revision, took)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestPusherMergesAndNeverReleasesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, end := start(t)
		defer end()
		wake, cancel := p.Subscribe()
		defer cancel()
		wakes := 0
		for i := uint64(1); i <= 5; i++ {
			p.Offer(snapshot(i), 1, time.Now())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for len(wake) > 0 {
			<-wake
			wakes++
		}
		if got := p.Released().Revision; got != 5 || wakes != 1 {
			t.Errorf("released revision %d with %d wakes, want 5 with one", got, wakes)
		}
	})
}

// What is offered between the pusher's look and the release goes out with it, and
// wakes nobody a second time.
func TestPusherReleasesTheNewestOnce(t *testing.T) {
	p := NewPusher(0, 0, nil)
	p.Offer(snapshot(1), 1, time.Now())
	p.look()
	p.Offer(snapshot(2), 1, time.Now())
	p.release()
	if got := p.Released().Revision; got != 2 {
		t.Errorf("released revision %d, want 2", got)
	}
	p.look()
	if _, pending := p.hold.Due(); pending {
		t.Error("the same snapshot is to be released again")
	}
}

func TestPusherOwesNothingToSlowSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, end := start(t)
		defer end()
		slow, cancelSlow := p.Subscribe()
		fast, cancelFast := p.Subscribe()
		defer cancelFast()
		for revision := uint64(1); revision <= 100; revision++ {
			begin := time.Now()
			p.Offer(snapshot(revision), 1, begin)
			if time.Since(begin) != 0 {
				t.Fatal("Offer blocked")
			}
			if took := waitFor(t, p, fast, revision); took != DefaultSettle {
				t.Fatalf("beside a slow subscriber revision %d took %v", revision, took)
			}
		}
		if len(slow) != 1 || cap(slow) != 1 {
			t.Errorf("the slow one has %d wakes of %d", len(slow), cap(slow))
		}
		cancelSlow()
		<-slow
		p.Offer(snapshot(101), 1, time.Now())
		waitFor(t, p, fast, 101)
		if len(slow) != 0 {
			t.Error("a wake after the subscription ended")
		}
	})
}

// Offer must not depend on anybody running.
func TestOfferNeverBlocks(t *testing.T) {
	p := NewPusher(0, 0, nil)
	for i := range 100 {
		p.Offer(snapshot(uint64(i)), 1, time.Time{})
	}
	if p.Released() != nil {
		t.Error("released without Run")
	}
}

// What a push is measured to cost, and what that does to the changes after it.
func TestPusherMeasuresPushes(t *testing.T) {
	const settle = DefaultSettle
	for _, test := range []struct {
		name string
		run  func(t *testing.T, cpu *cpuClock, change func() time.Duration)
	}{
		{"CPU used before the first push is not its cost", func(t *testing.T, cpu *cpuClock, change func() time.Duration) {
			cpu.use(30 * time.Second) // the sources were read
			for range 5 {
				if took := change(); took != settle {
					t.Errorf("took %v", took)
				}
			}
		}},
		{"after a long quiet time the first change waits for the settle only", func(t *testing.T, cpu *cpuClock, change func() time.Duration) {
			change()
			cpu.use(80 * ms)
			change() // this one measures it
			if took := change(); took != 100*ms {
				t.Errorf("right behind a push that costs 80 ms: took %v", took)
			}
			time.Sleep(time.Hour)
			cpu.use(time.Minute)
			if took := change(); took != settle {
				t.Errorf("after an hour: took %v", took)
			}
		}},
		{"a burst of connections between pushes is not the cost of a push", func(t *testing.T, cpu *cpuClock, change func() time.Duration) {
			change()
			time.Sleep(time.Second)
			cpu.use(3 * time.Second) // a thousand clients
			for range 10 {
				if took := change(); took != settle {
					t.Errorf("took %v", took)
				}
			}
		}},
		{"a burst right behind a push delays few of the changes that follow", func(t *testing.T, cpu *cpuClock, change func() time.Duration) {
			change()
			cpu.use(150 * ms)
			late := 0
			for range 50 {
				time.Sleep(30 * ms)
				cpu.use(ms / 10)
				if change() > settle {
					late++
				}
			}
			if late > 12 {
				t.Errorf("%d of 50 changes were late", late)
			}
		}},
		{"under load the distance follows the cost", func(t *testing.T, cpu *cpuClock, change func() time.Duration) {
			change()
			for range 5 {
				cpu.use(4 * ms) // each push, of two CPUs with a share of 4 %
				change()
			}
			cpu.use(4 * ms)
			if took := change(); took != 50*ms {
				t.Errorf("took %v, want 50ms", took)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, cpu, end := start(t)
				defer end()
				wake, cancel := p.Subscribe()
				defer cancel()
				revision := uint64(0)
				test.run(t, cpu, func() time.Duration {
					revision++
					p.Offer(snapshot(revision), 1, time.Now())
					return waitFor(t, p, wake, revision)
				})
			})
		})
	}
}

func TestPusherCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(prometheus.NewRegistry())
		p := NewPusher(5*ms, 50*ms, m)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		p.Offer(snapshot(1), 3, time.Now())
		p.Offer(snapshot(2), 4, time.Now())
		time.Sleep(time.Second)
		p.Offer(snapshot(3), 1, time.Now())
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if pushes, changes := count(t, m.pushes), count(t, m.changes); pushes != 2 || changes != 8 {
			t.Errorf("counted %v pushes of %v changes, want 2 of 8", pushes, changes)
		}
	})
}

func count(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Counter.GetValue()
}

func TestPusherRace(t *testing.T) {
	p := NewPusher(time.Microsecond, ms, NewMetrics(prometheus.NewRegistry()))
	ctx, cancel := context.WithCancel(t.Context())
	var running, users sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	users.Go(func() {
		for i := range 200 {
			p.Offer(snapshot(uint64(i+1)), 1, time.Now())
		}
	})
	for range 4 {
		users.Go(func() {
			wake, cancel := p.Subscribe()
			defer cancel()
			// A subscriber looks once, and then at each wake.
			for last := uint64(0); last < 200; {
				if s := p.Released(); s != nil {
					if s.Revision < last {
						t.Error("a release went backwards")
					}
					last = s.Revision
				}
				if last < 200 {
					<-wake
				}
			}
		})
	}
	users.Wait()
	cancel()
	running.Wait()
}
