// Package debug shows what the process knows: health, metrics, Istio's debug
// endpoints, an API of our own for the command line, and the page at /.
//
// It reads released snapshots and what clusters and streams tell of themselves;
// it never sees the core's tables, changes nothing, and nobody but cmd imports
// it. What a request is told of services is of one snapshot, so it is of one
// moment; clusters and proxies are told as of now.
//
// A request's path: serve.go bounds the connection, guard.go refuses what is not
// asked for from here, debug.go finds the handler. health.go are the probes,
// istio*.go the pages in Istio's shapes (istio_xds.go gives them to istioctl over
// xDS), explain*.go why an endpoint is served or
// not, api*.go the API, events.go the stream
// of what changed, page.go the page, collector.go the metrics of the registry.
//
// Concurrency: handlers share only the tally (locked) and the hub of the event
// stream, whose one goroutine lives while somebody listens. Serve returns after
// every handler and that goroutine have ended.
package debug
