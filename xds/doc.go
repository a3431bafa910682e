// Package xds serves the released snapshot to Envoy and gRPC clients over ADS,
// in the state-of-the-world and the delta variant.
//
// What happens to a request, in the order of the files: server.go accepts the
// stream, node.go reads who the client is, stream.go runs the stream, session.go
// and watch.go are the protocol as a pure state machine (requests and snapshots
// in, responses out), refusal.go finds what a client refuses and quarantine.go what
// its whole class is spared, size.go parts what is too large, class.go tells clients
// apart, view.go finds the resources of a snapshot and changes.go those that may
// differ, cds.go, eds.go, lds.go, rds.go, tls.go and alias.go render them for Envoy,
// grpc.go for gRPC, whose rules grpcrules.go checks, cache.go keeps what was
// rendered, resource.go and codec.go put the shared bytes on the wire; listener.go
// counts connections. Questions of istioctl turn off before the protocol, to
// debugtypes.go; status.go, holders.go and dump.go tell what clients have.
//
// The package never decides when something is pushed (package push does) or what
// a service is (package aggregate does). A response is made by a goroutine of the
// stream from the newest released snapshot, so no queue of responses exists and a
// slow client only skips states.
//
// Concurrency: a stream has three goroutines, one that receives and answers, one
// that follows the snapshots, and gRPC's own, which ends the stream for the other
// two. The first two take turns at the session. All streams share the cache and
// the last lists of changes; the cache is locked, a list never changes.
package xds
