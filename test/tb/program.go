package tb

import (
	"context"
	"fmt"
	"os"
)

// failure carries a Fatalf of a program up to Run.
type failure struct{ error }

// program is the T of a program: it logs to standard error, and Fatalf unwinds
// to Run.
type program struct {
	ctx      context.Context
	cleanups []func()
}

func (p *program) Helper()                  {}
func (p *program) Context() context.Context { return p.ctx }
func (p *program) Cleanup(f func())         { p.cleanups = append(p.cleanups, f) }

func (p *program) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (p *program) Fatalf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// Run calls f with a T for a program, runs what f gave to Cleanup, and returns
// the error of Fatalf if f called it. Other panics pass through, after the
// cleanups. The T's context ends with ctx or when f has returned.
func Run(ctx context.Context, f func(t T)) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &program{ctx: ctx}
	defer func() {
		cancel()
		for len(p.cleanups) > 0 {
			last := len(p.cleanups) - 1
			clean := p.cleanups[last]
			p.cleanups = p.cleanups[:last]
			clean()
		}
	}()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f(p)
	return nil
}
