// Package model holds the nouns of the service registry: services, endpoints,
// workload instances, the keys that name them, the batches in which sources
// report them and the deltas in which the core publishes them.
//
// It holds values only. Nothing here watches, locks, allocates in the
// background or knows Kubernetes, protobuf or etcd; it imports the standard
// library alone, and every other package may import it.
//
// Concurrency: a value that has been handed on (in a Batch, to an XDSUpdater,
// in a Delta) is immutable. Rows are replaced, never edited, so any number of
// goroutines may read what they were given without a lock.
package model
