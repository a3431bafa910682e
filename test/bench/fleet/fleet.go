package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tributary/test/bench/wire"
)

// Options say what a fleet is.
type Options struct {
	Address    string   // of the ADS server, plaintext
	Delta      bool     // else state of the world
	Streams    int      // how many
	Names      []string // of the assignments that each stream subscribes to
	ClusterIDs []string // the clients are in these, in turn
	Namespace  string   // of the clients
}

// Fleet is a set of streams to one server.
type Fleet struct {
	o       Options
	names   []byte         // as repeated in each request, state of the world only
	numbers map[string]int // of o.Names

	// Of each name: changes that some stream has not seen, oldest first.
	// Written by Expect, read by the streams.
	pending []atomic.Pointer[[]*Change]
	streams []*stream

	messages, bytes, refused atomic.Int64

	// Of the current connections.
	cancel  context.CancelFunc
	running sync.WaitGroup
	served  chan time.Time // of each stream, when it had everything
	failed  chan error
}

// New returns a fleet that is not connected.
func New(o Options) *Fleet {
	f := &Fleet{o: o, numbers: map[string]int{}, pending: make([]atomic.Pointer[[]*Change], len(o.Names))}
	for i, n := range o.Names {
		f.numbers[n] = i
	}
	if !o.Delta {
		f.names = wire.Names(o.Names)
	}
	for i := range o.Streams {
		f.streams = append(f.streams, &stream{fleet: f, number: i, node: node(i, o.ClusterIDs[i%len(o.ClusterIDs)], o.Namespace)})
	}
	return f
}

// Connect opens all streams, evenly over a time. With resume they tell the
// server which resources they hold from their connection before.
func (f *Fleet) Connect(ctx context.Context, over time.Duration, resume bool) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.served = make(chan time.Time, len(f.streams))
	f.failed = make(chan error, len(f.streams))
	start := time.Now()
	for i, s := range f.streams {
		begin := start.Add(over * time.Duration(i) / time.Duration(len(f.streams)))
		f.running.Go(func() {
			timer := time.NewTimer(time.Until(begin))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			if err := s.run(ctx, resume); err != nil && ctx.Err() == nil {
				f.failed <- fmt.Errorf("stream %d: %w", s.number, err)
			}
		})
	}
}

// Disconnect ends all streams and waits until they are gone.
func (f *Fleet) Disconnect() {
	if f.cancel != nil {
		f.cancel()
	}
	f.running.Wait()
}

// Served waits until every stream has every assignment, with endpoints, and
// returns when the first and the last had. A stream that resumed has those that
// it said it holds once it is given an answer.
func (f *Fleet) Served(ctx context.Context) (first, last time.Time, err error) {
	for n := range f.streams {
		select {
		case t := <-f.served:
			if n == 0 || t.Before(first) {
				first = t
			}
			if t.After(last) {
				last = t
			}
		case err := <-f.failed:
			return first, last, err
		case <-ctx.Done():
			return first, last, fmt.Errorf("%d of %d streams were served: %w", n, len(f.streams), context.Cause(ctx))
		}
	}
	return first, last, nil
}

// Err returns why a stream ended; nil while all are open.
func (f *Fleet) Err() error {
	select {
	case err := <-f.failed:
		return err
	default:
		return nil
	}
}

// Received returns how many messages and bytes have come so far.
func (f *Fleet) Received() (messages, bytes int64) { return f.messages.Load(), f.bytes.Load() }

// Refused returns how often a client was turned away and came again.
func (f *Fleet) Refused() int64 { return f.refused.Load() }

// Expect has every stream look for an address in the assignment with that
// number. It must be called before the address can come.
func (f *Fleet) Expect(name, cluster int, address string) *Change {
	c := &Change{
		address: []byte(address), cluster: cluster,
		arrived: make([]bool, len(f.streams)), done: make(chan struct{}),
	}
	var pending []*Change
	if p := f.pending[name].Load(); p != nil {
		pending = slices.DeleteFunc(slices.Clone(*p), (*Change).isDone)
	}
	pending = append(pending, c)
	f.pending[name].Store(&pending)
	return c
}

// Wait waits for a change to arrive everywhere.
func (f *Fleet) Wait(ctx context.Context, c *Change) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	select {
	case <-c.done:
		return nil
	case err := <-f.failed:
		return err
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s has not arrived everywhere", c.address), context.Cause(ctx))
	}
}
