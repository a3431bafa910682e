// Package push decides when clients are told of changes and wakes them. It
// never computes what they are told: a woken stream compares its own cursor with
// the released snapshot (package xds).
//
// Hold is the rule, a pure function of the changes, the time and the measured
// cost. Pusher is its skin: one goroutine that owns a Hold, releases snapshots
// and wakes streams, each by a channel of size one, so that a slow stream costs
// nothing and sees only the newest state.
package push
