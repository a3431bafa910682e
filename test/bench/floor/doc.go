// Command floor is the least server that does the work of the benchmark: it
// watches the EndpointSlices of all clusters, encodes a changed assignment once,
// and writes the same bytes to every stream. What it costs is what the API
// servers' watches, gRPC and the kernel cost; a real control plane is measured
// in multiples of it.
//
// It never looks at services, pods or what a client is, sends nothing but
// assignments in the delta variant, and knows no acknowledgements, versions or
// slow clients. It holds whole objects, as client-go's informers do: that is the
// usual way, not the least memory.
//
// It is a program of its own, and no part of bench, because the benchmark links
// an etcd server and more, which would show in the floor's memory.
//
//	floor ADDRESS ID=KUBECONFIG...
//
// The informers' goroutines and the streams share the assignments, which are
// locked.
package main
