// Package proc runs the real programs that tests and benchmarks need: it
// starts one, writes its output to a file, waits until it is ready, pauses it,
// and ends it.
//
// It never ends a process that it did not start and never restarts one. A
// process dies with ours, whatever way that goes: the kernel sends it SIGKILL.
//
// The packages lab and envoy call it, and tests that run Tributary itself.
// Each process has one goroutine, which keeps its thread until the process is
// gone; the methods of a Process may be called from any goroutine.
package proc
