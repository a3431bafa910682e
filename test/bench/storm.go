package main

import (
	"context"
	"fmt"
	"time"
)

// stormOver is the time over which the streams come back.
const stormOver = time.Second

// storm ends all streams, changes one service while nobody looks, and has the
// streams come back within a second. It times from the first of them until the
// last has everything, with that change.
func (m *measurement) storm(ctx context.Context) error {
	r := m.result
	m.fleet.Disconnect()
	address := m.data.Fresh()
	marker := m.fleet.Expect(0, 0, address)
	if err := m.data.Replace(ctx, 0, 0, address, marker.Begin); err != nil {
		return err
	}
	if err := m.server.process().settle(ctx, 2*time.Second); err != nil {
		return err
	}
	before, err := m.server.process().cpu()
	if err != nil {
		return err
	}
	_, bytes := m.fleet.Received()
	waiting, cancel := context.WithTimeout(ctx, arriveTimeout)
	defer cancel()
	marker.Begin()
	start := time.Now()
	m.fleet.Connect(ctx, stormOver, m.workload.Resume)
	_, last, err := m.fleet.Served(waiting)
	if err != nil {
		return fmt.Errorf("reconnecting: %w", err)
	}
	if err := m.fleet.Wait(waiting, marker); err != nil {
		return fmt.Errorf("reconnecting: %w", err)
	}
	_, arrived, _ := marker.Times()
	r.Storm = max(last.Sub(start), arrived).Seconds()
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	after, err := m.server.process().cpu()
	if err != nil {
		return err
	}
	_, bytesAfter := m.fleet.Received()
	r.StormCPU, r.StormMB = (after - before).Seconds(), float64(bytesAfter-bytes)/1e6
	return nil
}
