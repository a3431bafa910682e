package aggregate

import (
	"context"
	"time"

	"tributary/model"
)

// rowsPerRound bounds how much one round takes in, so that the first change of
// a burst does not wait for the last one.
const rowsPerRound = 32

// Run is the core's goroutine: it takes batches from in and hands each Delta
// to sink until ctx ends.
func (a *Aggregator) Run(ctx context.Context, in *Inbox, sink Sink) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batches, more := in.Take(rowsPerRound)
		if d := a.Round(time.Now(), batches); !d.Empty() {
			sink.Apply(d)
		}
		if more {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		wait := time.Hour
		if next := a.Next(); !next.IsZero() {
			wait = max(0, time.Until(next))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-in.Wake():
		case <-timer.C:
		}
	}
}

var _ model.XDSUpdater = recorder{}
