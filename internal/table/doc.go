// Package table holds the containers of the core's state: interning by
// reference count, sorted postings, dense row ids and an ordered copy-on-write
// tree whose frozen copies are what readers see.
//
// It knows no word of the domain, does no I/O and starts no goroutine. The
// packages whose state lives on the core's goroutine use it (clusters/kube,
// aggregate, shards).
//
// Concurrency: everything here belongs to one goroutine, except a Frozen tree,
// which any number of goroutines may read.
package table
