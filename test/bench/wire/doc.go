// Package wire is what the benchmark's clients and its floor server need of the
// xDS protocol: names, encoded messages, and a codec that leaves bytes as they
// are.
//
// It never builds a message out of objects where bytes will do: a thousand
// streams share two cores with the server that is measured, and each
// microsecond of theirs counts as the server's. It keeps no state and may be
// used from any goroutine.
package wire
