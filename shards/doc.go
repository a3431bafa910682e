// Package shards is the published view: every service with its endpoint shards
// by provider and cluster, as immutable snapshots with a revision.
//
// The core's goroutine writes it, one Store.Apply for each Delta; anybody may
// read Store.Load and keep what it returns. Snapshots share all that did not
// change. The package never derives anything, knows nobody who reads it, and
// knows only model and the containers of internal/table.
package shards
