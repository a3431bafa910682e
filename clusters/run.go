package clusters

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"k8s.io/client-go/rest"

	"tributary/model"
)

// Runner is a source that follows one cluster with one credential.
type Runner interface {
	// Run hands over what the cluster says until ctx ends, and then returns
	// nil, or until it cannot go on. When it has returned, out is not called
	// again. A cluster that does not answer is no reason to return.
	Run(ctx context.Context, out func(context.Context, model.Batch) error) error
	// Health returns what was observed so far. It may be called at any time.
	Health() model.SourceHealth
}

// Spec is what a Runner is made from.
type Spec struct {
	Source model.ShardKey
	Epoch  uint64
	Config *rest.Config // how to reach the API server; nil for a directory
	Dir    string       // of manifests; "" for a cluster with an API server
	// Count is told of each event of a watch, in the words of Istio's
	// pilot_k8s_reg_events; from any goroutine.
	Count func(kind, event string)
}

// run is one epoch of a cluster: a source that is kept running.
type run struct {
	spec Spec
	sum  [sha256.Size]byte // of the kubeconfig
	stop context.CancelFunc
	done chan struct{} // closed when nothing of it runs any more

	// Owned by the manager.
	began  time.Time
	ending bool // it was told to stop

	mu     sync.Mutex
	runner Runner // nil while there is none
	err    error  // why there is none, or why the last one ended
	answer answer // to the probes
}

// How long to wait before a source that could not be made, or ended, is made
// again. What the network does is not told here: sources retry by themselves.
const (
	rebuildFirst = time.Second
	rebuildMost  = 30 * time.Second
)

// keep makes the source and runs it until ctx ends, and asks the API server
// beside it whether it is there.
func (r *run) keep(ctx context.Context, o *Options, out func(context.Context, model.Batch) error, changed func()) {
	defer changed()
	defer close(r.done)
	var probing sync.WaitGroup
	defer probing.Wait()
	if o.NewProber != nil && r.spec.Config != nil {
		p, err := o.NewProber(r.spec)
		if err != nil { // as the source cannot be made either, which tells why
			p = failing{err}
		}
		r.mu.Lock()
		r.answer.probed = true
		r.mu.Unlock()
		probing.Go(func() { r.probe(ctx, p, &o.Liveness, changed) })
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = rebuildFirst, rebuildMost
	for {
		started := time.Now()
		runner, err := o.NewRunner(r.spec)
		if err == nil {
			r.set(runner, nil)
			changed()
			if err = runner.Run(ctx, out); err == nil {
				err = errors.New("the source ended by itself")
			}
		}
		if ctx.Err() != nil {
			return
		}
		r.set(nil, err)
		changed()
		if time.Since(started) > rebuildMost {
			pause.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func (r *run) set(runner Runner, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runner, r.err = runner, err
}

// health returns what the source observed, or why there is no source, without
// its credential.
func (r *run) health() (model.SourceHealth, error) {
	r.mu.Lock()
	runner, err := r.runner, r.err
	r.mu.Unlock()
	if runner == nil {
		if err != nil {
			err = errors.New(redact(err.Error(), r.spec.Config))
		}
		return model.SourceHealth{}, err
	}
	h := runner.Health()
	for k := range h.Kinds {
		row := &h.Kinds[k]
		for _, text := range []*string{&row.Detail, &row.LastError, &row.Remark} {
			*text = redact(*text, r.spec.Config)
		}
	}
	return h, nil
}

// end tells the run to stop. It does not wait.
func (r *run) end() {
	r.ending = true
	r.stop()
}

// follows reports whether the run uses what c asks for.
func (r *run) follows(c *claim) bool { return r.sum == c.sum && r.spec.Dir == c.dir }

// ended reports whether nothing of the run is left.
func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// judge turns what a source observed into what happened to its cluster.
// complete says whether the core has all of this epoch. ok is false if nothing
// is known yet.
func judge(h *model.SourceHealth, err error, complete bool) (e event, reason string, ok bool) {
	if err != nil {
		return evUnreachable, err.Error(), true
	}
	kind, worst := h.Worst()
	if worst.Trouble != model.NoTrouble {
		reason = worst.Detail
		if worst.Trouble != model.Faulty {
			reason = kind.String() + ": " + reason
		}
	}
	switch {
	case worst.Trouble == model.Denied:
		return evDeny, reason, true
	case worst.Trouble == model.Unreachable:
		return evUnreachable, reason, true
	case complete:
		return evComplete, reason, true
	case h.Answered():
		return evAnswer, reason, true
	}
	return 0, "", false
}
