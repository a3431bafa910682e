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
	offered  chan struct{}
	released atomic.Pointer[shards.Snapshot]

	mu      sync.Mutex
	newest  *shards.Snapshot
	changes int       // since the last look of the goroutine
	oldest  time.Time // arrival of the oldest event among them
	wakes   map[chan struct{}]struct{}
}

// NewPusher returns a pusher with the given debounce settings; zero values mean
// the defaults.
func NewPusher(settle, longest time.Duration, m *Metrics) *Pusher {
	if settle == 0 {
		settle = DefaultSettle
	}
	if longest == 0 {
		longest = DefaultMax
	}
	return &Pusher{
		hold:    Hold{Settle: settle, Max: longest, Share: DefaultShare * float64(runtime.GOMAXPROCS(0))},
		metrics: m, offered: make(chan struct{}, 1), wakes: map[chan struct{}]struct{}{},
	}
}

// Offer takes in a new snapshot with changes; it never blocks. received is when
// the oldest event behind it arrived.
func (p *Pusher) Offer(s *shards.Snapshot, changes int, received time.Time) {
	p.mu.Lock()
	p.newest = s
	p.changes += changes
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
	cpu := cpuTime()
	for {
		wait := time.Hour
		if due, ok := p.hold.Due(); ok {
			if wait = time.Until(due); wait <= 0 {
				now := cpuTime()
				p.hold.Cost(now - cpu)
				cpu = now
				p.release()
				continue
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.offered:
			p.mu.Lock()
			n := p.changes
			p.changes = 0
			p.mu.Unlock()
			if _, pending := p.hold.Due(); !pending {
				// What the process did while nothing was pending is no part of
				// the cost of pushing; what followed the last push is.
				cpu = max(cpu, cpuTime()-p.hold.Max)
			}
			p.hold.Offer(time.Now(), n)
		}
	}
}

// release shows the newest snapshot and wakes every stream.
func (p *Pusher) release() {
	changes, held := p.hold.Push(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released.Store(p.newest)
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
