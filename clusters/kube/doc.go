// Package kube is the Kubernetes registry of one cluster. It has two halves that
// share nothing but the rows of package model:
//
//   - The source side turns API objects into batches: Watcher for a cluster with
//     an API server (watch.go, listwatch.go, store.go), Manifests for a directory
//     that plays one (manifests.go), both by way of the same pure converters
//     (convert*.go, ports.go). Dial makes the client; Check has the converters tell
//     what is wrong with manifests (check*.go).
//   - The core side, Registry, holds the rows of a cluster and joins slices to
//     pods (registry.go, join.go and the files they lead to).
//
// The source side never keeps an object: a page of a list or an event becomes
// rows and is dropped. It never decides what a row means for an endpoint, and it
// takes no object for granted: what cannot be used is left out and counted. The
// core side never does I/O.
//
// Package clusters runs the sources, through an interface of its own; the core
// owns the registries; cmd puts both together.
//
// Concurrency: Watcher.Run has two goroutines for each kind, one that lists and
// watches and one that hands over; Manifests.Run works on the caller's. All have
// ended when Run returns. Health may be called at any time. Converters are plain
// functions. Registry belongs to the core's goroutine.
package kube
