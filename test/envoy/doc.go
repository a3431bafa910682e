// Package envoy runs a real Envoy and reads its admin interface, so that tests
// see what Envoy made of a configuration, and not only what it was sent.
//
// It never changes a running Envoy other than by the configuration it started
// with, and never decides what is right: tests do.
//
// Tests call Start, with a bootstrap of their own or that of an ADS; programs
// call it through tb.Run. An Envoy may be used from any goroutine, except for
// the methods that take a tb.T. In a namespace of package netns, call
// parts.Envoy before entering: inside there is nothing to fetch it from.
package envoy
