// Package bootstrap writes what a client starts with so that it gets everything
// else from Tributary: the bootstrap of Envoy and that of gRPC. What stands in it
// of the client is what package xds reads from the node of a request.
//
// It is pure: values in, text out. The command line calls it.
package bootstrap
