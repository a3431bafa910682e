package clusters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Prober asks one API server whether it is there, over a connection of its own:
// what a slow watch or a large list holds up must not hold up the question.
type Prober interface {
	// Probe asks once. It returns nil if the server answers, an error that
	// apierrors.IsUnauthorized knows if it refuses the credential, and any other
	// one if there is no answer, also because ctx ended.
	Probe(ctx context.Context) error
	// Close closes the connection.
	Close()
}

// answer is what probing has shown.
type answer struct {
	probed   bool // the server is asked at all
	answered time.Time
	failure  string        // of the newest probe; "" if it was answered
	denied   bool          // the newest answer refuses the credential
	took     time.Duration // of the newest that was answered
	probes   uint64
	failures uint64
}

// probe asks the server of a run until ctx ends. Each waits a random part of the
// interval first, and a fifth of it more or less later on, so that the probes of
// a fleet are spread over time.
func (r *run) probe(ctx context.Context, p Prober, l *Liveness, changed func()) {
	defer p.Close()
	pause := time.Duration(rand.Float64() * float64(l.ProbeInterval))
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		err := ask(ctx, p, l.ProbeTimeout)
		if ctx.Err() != nil {
			return
		}
		if r.note(begun, time.Now(), err) {
			changed()
		}
		next := l.ProbeInterval * time.Duration(80+rand.IntN(41)) / 100
		timer.Reset(max(0, next-time.Since(begun)))
	}
}

// ask probes once. That the time was up is told in words that a person reads.
func ask(ctx context.Context, p Prober, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := p.Probe(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", timeout)
	}
	return err
}

// note keeps the outcome of a probe and reports whether it differs from the one
// before, so that the manager has to look.
func (r *run) note(begun, now time.Time, err error) (differs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &r.answer
	before := *a
	a.probes++
	a.failure = ""
	if err != nil {
		a.failure = redact(err.Error(), r.spec.Config)
	}
	switch refused := apierrors.IsUnauthorized(err); {
	case err == nil || refused:
		a.denied, a.answered, a.took = refused, now, now.Sub(begun)
	default: // who was refused and hears nothing now is still refused
		a.failures++
	}
	return (a.failure == "") != (before.failure == "") || a.denied != before.denied
}

// failing is a prober that could not be made.
type failing struct{ err error }

func (f failing) Probe(context.Context) error { return f.err }
func (f failing) Close()                      {}

// probing returns what probes have shown.
func (r *run) probing() answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answer
}
