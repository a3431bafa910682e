package aggregate

import (
	"context"
	"sync"

	"tributary/model"
)

// Inbox is where sources leave batches for the core: one bounded queue a
// source, so that a noisy source waits for itself and delays nobody else.
type Inbox struct {
	limit int // rows a source may have waiting
	wake  chan struct{}

	mu     sync.Mutex
	queues map[model.ShardKey]*queue // those that are not empty
	ring   []*queue                  // the same, next one first
}

type queue struct {
	source  model.ShardKey
	batches []model.Batch
	rows    int
	space   chan struct{} // closed when rows were taken; nil if nobody waits
}

// NewInbox returns an inbox in which each source may have limit rows waiting. A
// source that has more blocks in Put, and with it its watch: the API server
// keeps what it cannot deliver, and nothing is lost.
func NewInbox(limit int) *Inbox {
	return &Inbox{limit: limit, wake: make(chan struct{}, 1), queues: map[model.ShardKey]*queue{}}
}

// Put leaves b in the queue of its source; it blocks while that is full.
func (in *Inbox) Put(ctx context.Context, b model.Batch) error {
	for {
		in.mu.Lock()
		q := in.queues[b.Source]
		if q == nil {
			q = &queue{source: b.Source}
			in.queues[b.Source] = q
		}
		if q.rows < in.limit || len(q.batches) == 0 {
			if len(q.batches) == 0 {
				in.ring = append(in.ring, q)
			}
			q.batches = append(q.batches, b)
			q.rows += b.Rows()
			in.mu.Unlock()
			select {
			case in.wake <- struct{}{}:
			default:
			}
			return nil
		}
		if q.space == nil {
			q.space = make(chan struct{})
		}
		space := q.space
		in.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wake returns a channel that has a value while there may be batches.
func (in *Inbox) Wake() <-chan struct{} { return in.wake }

// Take removes at most about rows rows, one batch of each source in turn. more
// tells that something is left.
func (in *Inbox) Take(rows int) (batches []model.Batch, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for taken := 0; len(in.ring) > 0 && taken < rows; {
		q := in.ring[0]
		in.ring = in.ring[1:]
		b := q.batches[0]
		q.batches[0] = model.Batch{}
		q.batches = q.batches[1:]
		q.rows -= b.Rows()
		taken += max(1, b.Rows())
		if q.space != nil {
			close(q.space)
			q.space = nil
		}
		if len(q.batches) > 0 {
			in.ring = append(in.ring, q)
		} else {
			delete(in.queues, q.source)
		}
		batches = append(batches, b)
	}
	return batches, len(in.ring) > 0
}

// Waiting returns how many rows of each source wait, of those that have some,
// for metrics.
func (in *Inbox) Waiting() map[model.ShardKey]int {
	in.mu.Lock()
	defer in.mu.Unlock()
	rows := make(map[model.ShardKey]int, len(in.queues))
	for k, q := range in.queues {
		rows[k] = q.rows
	}
	return rows
}
