package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tributary/test/bench/dataset"
	"tributary/test/bench/fleet"
)

// arriveTimeout bounds the wait for streams to be served, and for changes to
// arrive after the last was written.
const arriveTimeout = time.Minute

// writers is how many changes are written at the same time at most.
const writers = 16

// measurement is one server under one workload.
type measurement struct {
	workload workload
	server   *server
	data     *dataset.Data
	fleet    *fleet.Fleet
	profiles *profiles // nil: none are wanted
	settle   time.Duration
	result   *Result
}

// run measures from the start of the server, which is ready, to the last
// arrival.
func (m *measurement) run(ctx context.Context) error {
	p, r := m.server.process(), m.result
	if err := p.settle(ctx, m.settle); err != nil {
		return err
	}
	var err error
	if r.MemoryBefore, r.PeakBefore, err = p.memory(); err != nil {
		return err
	}
	m.profiles.heap(ctx, m.server, "before")
	defer m.fleet.Disconnect()
	if err := m.connect(ctx); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	begin, err := machine()
	if err != nil {
		return err
	}
	if m.workload.Storm {
		err = m.storm(ctx)
	} else {
		err = m.changes(ctx)
	}
	if err != nil {
		return err
	}
	end, err := machine()
	if err != nil {
		return err
	}
	r.Idle = end.idleSince(begin)
	if r.Memory, r.Peak, err = p.memory(); err != nil {
		return err
	}
	r.Refused = m.fleet.Refused()
	m.profiles.heap(ctx, m.server, "end")
	return m.fleet.Err()
}

// connect opens all streams at once and waits until they are served.
func (m *measurement) connect(ctx context.Context) error {
	r := m.result
	before, err := m.server.process().cpu()
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, arriveTimeout)
	defer cancel()
	start := time.Now()
	m.fleet.Connect(ctx, 0, false)
	first, last, err := m.fleet.Served(waiting)
	if err != nil {
		return err
	}
	r.SyncFirst, r.SyncAll = first.Sub(start).Seconds(), last.Sub(start).Seconds()
	if err := pause(ctx, 2*time.Second); err != nil { // what is still under way
		return err
	}
	after, err := m.server.process().cpu()
	if err != nil {
		return err
	}
	_, bytes := m.fleet.Received()
	r.SyncCPU, r.SyncMB = (after - before).Seconds(), float64(bytes)/1e6
	return nil
}

// changes writes changes at the workload's rate and waits until all have
// arrived.
func (m *measurement) changes(ctx context.Context) error {
	r, w := m.result, m.workload
	messages, bytes := m.fleet.Received()
	before, err := m.server.process().cpu()
	if err != nil {
		return err
	}
	stopProfile := m.profiles.cpu(ctx, m.server, w.duration())
	changes, writes, err := m.write(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, arriveTimeout)
	defer cancel()
	var first, last []time.Duration
	for _, c := range changes {
		if err := m.fleet.Wait(waiting, c); err != nil && waiting.Err() == nil {
			return err
		}
		if f, l, ok := c.Times(); ok {
			first, last = append(first, f), append(last, l)
		} else {
			r.Lost++
		}
	}
	if err := pause(ctx, time.Second); err != nil { // acknowledgements cost too
		return err
	}
	after, err := m.server.process().cpu()
	if err != nil {
		return err
	}
	stopProfile()
	messagesAfter, bytesAfter := m.fleet.Received()
	r.Changes = len(changes)
	r.Write = quantiles(writes)
	r.First, r.Last = quantiles(first), quantiles(last)
	r.CPU = (after - before).Seconds() * 1000 / float64(len(changes))
	r.Messages, r.MB = messagesAfter-messages, float64(bytesAfter-bytes)/1e6
	return nil
}

// write writes all changes: round after round over the services, in one cluster
// after the other. It returns them in order, and how long the API servers took.
func (m *measurement) write(ctx context.Context) ([]*fleet.Change, []time.Duration, error) {
	w := m.workload
	interval := time.NewTicker(time.Duration(float64(time.Second) / w.Rate))
	defer interval.Stop()
	changes := make([]*fleet.Change, w.Changes)
	var mu sync.Mutex
	var writes []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for k := range changes {
		select {
		case <-interval.C:
		case <-ctx.Done():
			return nil, nil, group.Wait()
		}
		round, service := k/w.Data.Services, k%w.Data.Services
		cluster := (k + round) % w.Data.Clusters
		address := m.data.Fresh()
		c := m.fleet.Expect(service, cluster, address)
		changes[k] = c
		group.Go(func() error {
			err := m.data.Replace(ctx, service, cluster, address, c.Begin)
			mu.Lock()
			defer mu.Unlock()
			writes = append(writes, c.Since())
			return err
		})
	}
	return changes, writes, group.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
