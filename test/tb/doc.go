// Package tb is how the harness reports failure and waits: the few methods of
// testing.TB that its helpers call, a stand-in for programs that have no test
// around them, and waiting for a condition with a deadline.
//
// It never sleeps for a fixed time in place of a condition, and knows nothing
// of clusters or proxies.
//
// Tests and the other packages under test/ call it; the benchmark and demo
// programs call Run and hand its T to the same helpers. A T must be used from
// the goroutine that got it, as with testing.T; Until may be called from any.
package tb

import "context"

// T is what a helper needs of a test. *testing.T, *testing.B and testing.TB
// are Ts; a program gets one from Run.
type T interface {
	// Helper marks the calling function as a helper in failure messages.
	Helper()
	// Context ends when the test or program is about to clean up.
	Context() context.Context
	// Logf tells something worth reading when the test fails.
	Logf(format string, args ...any)
	// Fatalf reports a failure and does not return.
	Fatalf(format string, args ...any)
	// Cleanup runs f at the end, last one first.
	Cleanup(f func())
}
