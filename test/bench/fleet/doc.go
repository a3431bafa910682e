// Package fleet is many xDS clients at once, as Envoys would be, that note when
// something arrives: each has a connection and an ADS stream of its own, follows
// the clusters, subscribes to the endpoints of all services and acknowledges
// everything.
//
// It never looks at more of a response than it must: it finds an address by its
// text in the undecoded resource. What it costs is part of what it measures, as
// it shares the machine with the server.
//
// Each stream has a goroutine, and gRPC's own. The methods of a Fleet may be
// called from one goroutine, those of a Change from any.
package fleet
