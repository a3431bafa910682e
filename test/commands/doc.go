// Package commands tests what the command line prints, against a real server and
// with the programs that it is for: bootstraps by an Envoy and a gRPC client that
// use them, explain and get -w while manifests change and the server ends and
// comes back. It has tests only, and runs in a network of its own.
package commands
