package push

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tributary/shards"
)

// Pusher releases snapshots to streams at the pace of a Hold.
type Pusher struct {
	hold     Hold
	metrics  *Metrics
	cpu      func() time.Duration // CPU time that the process has used
	offered  chan struct{}
	released atomic.Pointer[shards.Snapshot]

	// Owned by Run: the measurement of the last push.
	measuring bool
	since     time.Duration // what cpu said at the push
	until     time.Time     // when it ends, if no other push comes first

	mu      sync.Mutex
	newest  *shards.Snapshot
	changes int       // since the goroutine last took them
	oldest  time.Time // arrival of the oldest event among them
	wakes   map[chan struct{}]struct{}
	ages    []age // of the last releases, by revision
}

// age is when the oldest event behind a release arrived.
type age struct {
	revision uint64
	oldest   time.Time
}

// maxAges is how many releases are remembered: some seconds of the fastest pace.
const maxAges = 256

// NewPusher returns a pusher with the given debounce settings; zero values mean
// the defaults.
func NewPusher(settle, longest time.Duration, m *Metrics) *Pusher {
	if settle == 0 {
		settle = DefaultSettle
	}
	if longest == 0 {
		longest = DefaultMax
	}
	cpus := runtime.GOMAXPROCS(0)
	return &Pusher{
		hold:    Hold{Settle: settle, Max: longest, Share: DefaultShare * float64(cpus), CPUs: cpus},
		metrics: m, cpu: cpuTime, offered: make(chan struct{}, 1), wakes: map[chan struct{}]struct{}{},
	}
}

// Offer takes in a new snapshot with changes; it never blocks. received is when
// the oldest event behind it arrived.
func (p *Pusher) Offer(s *shards.Snapshot, changes int, received time.Time) {
	p.mu.Lock()
	p.newest = s
	p.changes += changes
	p.metrics.offered(changes)
	if p.oldest.IsZero() {
		p.oldest = received
	}
	p.mu.Unlock()
	select {
	case p.offered <- struct{}{}:
	default:
	}
}

// Released returns the snapshot that streams may show; nil before the first.
func (p *Pusher) Released() *shards.Snapshot { return p.released.Load() }

// Arrived returns when the oldest event arrived of what was released after a
// revision, as far as releases are remembered; zero if that is not known.
func (p *Pusher) Arrived(after uint64) (oldest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.ages) - 1; i >= 0 && p.ages[i].revision > after; i-- {
		if a := p.ages[i].oldest; oldest.IsZero() || !a.IsZero() && a.Before(oldest) {
			oldest = a
		}
	}
	return oldest
}

// Subscribe returns a channel that gets a value when a newer snapshot was
// released, and what ends the subscription.
func (p *Pusher) Subscribe() (wake <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	p.mu.Lock()
	p.wakes[ch] = struct{}{}
	p.mu.Unlock()
	return ch, func() {
		p.mu.Lock()
		delete(p.wakes, ch)
		p.mu.Unlock()
	}
}

// Run is the pusher's goroutine; it returns when ctx ends.
func (p *Pusher) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		due, pending := p.hold.Due()
		switch {
		case pending:
			wait = time.Until(due)
		case p.measuring:
			wait = time.Until(p.until)
		}
		if wait <= 0 {
			p.measure()
			if pending {
				p.release()
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.offered:
			p.look()
		}
	}
}

// look takes in what was offered.
func (p *Pusher) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest == p.released.Load() {
		return // it came with the last release
	}
	p.hold.Offer(time.Now(), p.changes)
	p.changes = 0
}

// measure ends the measurement of the last push: the CPU time that the process
// used from there to the next push, or for debounceMax if none follows. What it
// uses later, on connecting clients or on its sources, is not the cost of a push.
func (p *Pusher) measure() {
	if p.measuring {
		p.measuring = false
		p.hold.Cost(p.cpu() - p.since)
	}
}

// release shows the newest snapshot and wakes every stream.
func (p *Pusher) release() {
	p.measuring, p.since, p.until = true, p.cpu(), time.Now().Add(p.hold.Max)
	p.mu.Lock()
	defer p.mu.Unlock()
	changes, held := p.hold.Push(time.Now())
	changes += p.changes
	p.changes = 0
	p.released.Store(p.newest)
	if len(p.ages) == maxAges {
		p.ages = append(p.ages[:0], p.ages[maxAges/2:]...)
	}
	p.ages = append(p.ages, age{p.newest.Revision, p.oldest})
	for ch := range p.wakes {
		select {
		case ch <- struct{}{}:
		default: // it has not looked since the last wake, and will see this too
		}
	}
	p.metrics.pushed(changes, held, p.oldest, p.hold.Distance(), p.hold.Grown())
	p.oldest = time.Time{}
}

// cpuTime is the CPU time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
