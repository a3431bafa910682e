// Package aggregate is the core: it joins what the registries of all clusters
// report into one registry of services and says, round by round, what changed.
//
// One goroutine owns everything here (Run); a round takes batches from the
// sources in turn, hands each to its registry, lets registries tell each other
// about workloads (crossregister.go), lets each report what it derived
// (record.go), merges the definitions of every touched service (merge.go) and
// compares the result with what was published (derive.go). The state machine is
// Aggregator.Round: batches and the time in, a Delta out; it has no lock, no
// clock and does no I/O.
//
// It never sees Kubernetes, protobuf, etcd or Envoy types, and does not know
// who receives its Deltas: it declares the interfaces that it needs (Registry,
// Sink), and cmd wires them. Sources call Inbox.Put from goroutines of their
// own; nothing else here may be called from outside the core's goroutine.
package aggregate
