package clusters

import (
	"context"
	"slices"
	"time"

	"tributary/model"
)

// Waiting is something that readiness waits for.
type Waiting struct {
	Cluster model.ClusterID // "" if it is no single cluster
	What    string
	Since   time.Time
}

// Ready reports whether this process knows enough to serve: which clusters
// there are, and of each either all that it holds, or that nothing is to be
// expected of it, or that it was waited for long enough. Once ready it stays so.
// waiting tells what is missing, also when it no longer matters.
func (m *Manager) Ready(now time.Time) (ready bool, waiting []Waiting) {
	waiting = missing(m.view.Load(), now, m.options.SyncTimeout)
	if len(waiting) == 0 {
		m.becomeReady()
	}
	select {
	case <-m.ready:
		return true, waiting
	default:
		return false, waiting
	}
}

// WaitReady waits until Ready would report that this process knows enough, or
// until ctx ends, and then returns why it ended. It needs Run to run.
func (m *Manager) WaitReady(ctx context.Context) error {
	select {
	case <-m.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Manager) becomeReady() { m.readyOnce.Do(func() { close(m.ready) }) }

// missing lists what readiness has to wait for.
func missing(v *view, now time.Time, patience time.Duration) []Waiting {
	waiting := slices.Clone(v.lists)
	for i := range v.statuses {
		s := &v.statuses[i]
		if s.Known || s.State == Removed || s.State.Refused() || !now.Before(s.Added.Add(patience)) {
			continue
		}
		what := "the cluster is " + s.State.String()
		if s.Reason != "" {
			what += ": " + s.Reason
		}
		waiting = append(waiting, Waiting{s.ID, what, s.Added})
	}
	return waiting
}
