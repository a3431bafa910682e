package fleet

import (
	"bytes"
	"sync"
	"time"
)

// Change is one new address whose arrival at each stream is timed.
type Change struct {
	// Set once.
	address []byte
	cluster int
	done    chan struct{} // closed when it has arrived everywhere

	mu          sync.Mutex // guards what follows
	start       time.Time
	arrived     []bool // by stream
	count       int
	first, last time.Duration
}

// Begin starts the clock: the change is about to be written.
func (c *Change) Begin() {
	c.mu.Lock()
	c.start = time.Now()
	c.mu.Unlock()
}

// Since returns the time since Begin.
func (c *Change) Since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.start)
}

// Times returns when the first and the last of all streams had the change,
// counted from Begin; ok is false if one has not.
func (c *Change) Times() (first, last time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first, c.last, c.count == len(c.arrived)
}

func (c *Change) isDone() bool {
	_, _, ok := c.Times()
	return ok
}

func (c *Change) arrive(stream int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arrived[stream] {
		return
	}
	c.arrived[stream] = true
	d := now.Sub(c.start)
	if c.count == 0 {
		c.first = d
	}
	c.first, c.last = min(c.first, d), max(c.last, d)
	if c.count++; c.count == len(c.arrived) {
		close(c.done)
	}
}

// note marks the changes that stream sees in an assignment that it was given at
// time now. A change whose address is already gone again, because a newer one of
// the same service and cluster is there, has arrived with that one: the stream
// is as up to date as it can be.
func note(pending []*Change, body []byte, stream int, now time.Time) {
	var newer uint64 // clusters of which a newer change was seen, as bits
	for i := len(pending) - 1; i >= 0; i-- {
		c := pending[i]
		bit := uint64(1) << c.cluster
		if newer&bit == 0 && !bytes.Contains(body, c.address) {
			continue
		}
		newer |= bit
		c.arrive(stream, now)
	}
}
