package tb

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUntilReturnsTheLastError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	calls := 0
	err := Until(ctx, func(context.Context) error {
		calls++
		return errors.New("not yet")
	})
	if err == nil || !strings.Contains(err.Error(), "not yet") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Until = %v, want the deadline and the last error", err)
	}
	if calls < 2 {
		t.Errorf("asked %d times, want more than once", calls)
	}
}

func TestUntilStopsAtSuccess(t *testing.T) {
	calls := 0
	err := Until(t.Context(), func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("Until = %v after %d calls, want nil after 3", err, calls)
	}
}

func TestRunCleansUpInReverseAndReturnsTheFailure(t *testing.T) {
	var order []string
	err := Run(t.Context(), func(t T) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() { order = append(order, "second") })
		t.Fatalf("no %s", "luck")
	})
	if err == nil || err.Error() != "no luck" {
		t.Errorf("Run = %v, want the text of Fatalf", err)
	}
	if got := strings.Join(order, " "); got != "second first" {
		t.Errorf("cleanups ran as %q, want second first", got)
	}
}

func TestEventuallyFailsWithItsName(t *testing.T) {
	err := Run(t.Context(), func(t T) {
		Eventually(t, 20*time.Millisecond, "the moon", func(context.Context) error { return errors.New("dark") })
	})
	if err == nil || !strings.Contains(err.Error(), "the moon") || !strings.Contains(err.Error(), "dark") {
		t.Errorf("Eventually failed with %v, want what it waited for and why", err)
	}
}
