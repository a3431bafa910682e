package tb

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// interval is the time between two looks at a condition. It is short because
// most conditions here become true within milliseconds and are cheap to ask.
const interval = 10 * time.Millisecond

// Until calls cond again and again until it returns nil, and returns the last
// error of cond, joined with the context's, if ctx ends before that. Each call
// gets ctx, so that a call that hangs ends with it.
func Until(ctx context.Context, cond func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		// A call cut off by ctx says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

// Eventually waits until cond returns nil and fails the test with the last
// error of cond if that takes longer than timeout. The name of what is waited
// for starts the failure message.
func Eventually(t T, timeout time.Duration, what string, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout,
		fmt.Errorf("not within %v", timeout))
	defer cancel()
	if err := Until(ctx, cond); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
