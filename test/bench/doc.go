// Command bench measures control planes from outside, with real parts only: it
// fills real Kubernetes API servers, opens xDS streams as proxies do, changes
// endpoints through the API servers, and times the arrival of each change at the
// first and the last of all streams. It reads the CPU time and the memory of the
// server's process.
//
//	go run ./test/bench                                  idle and churn, three times
//	go run ./test/bench -workload size,pods -repeat 1
//	go run ./test/bench -workload fanout -protocol delta,sotw
//	go run ./test/bench -server tributary -profile /tmp/profiles -workload churn
//
// The servers are Tributary as it is in this checkout, istiod as the peer, and
// the floor (command floor) as the least work that any server must do. They run
// one at a time, on the same API servers with the same data, in turn, so that a
// noisy machine is noisy for all of them.
//
// In the order of the files: main.go reads the flags, workload.go has what is
// measured, plan.go runs it all, build.go builds the servers and server.go starts
// one, run.go measures it, storm.go does where all clients come back, process.go
// and machine.go read /proc, profile.go fetches profiles, report.go and table.go
// show the results.
package main
