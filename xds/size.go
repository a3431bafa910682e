package xds

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// grpcBytes is what the resources of one response to a gRPC client may take: it
// receives 4 MiB at most.
const grpcBytes = 3 << 20

// fit makes r not larger than a response may be: the rest comes in responses of
// its own, when this one is settled. A resource that is too large by itself is
// sent. A response that is all there is cannot be parted; the client is told.
func (w *watch) fit(r *response, v *view) error {
	limit := v.responseBytes
	if limit == 0 {
		return nil
	}
	if v.node.Class == GRPC && !r.whole {
		limit = min(limit, grpcBytes)
	}
	size, n := 0, 0
	for n < len(r.resources) {
		if size += r.resources[n].bytes(); size > limit && (n > 0 || r.whole) {
			break
		}
		n++
	}
	if n == len(r.resources) {
		return nil
	}
	if r.whole {
		return status.Errorf(codes.ResourceExhausted, "all %s together take more than %d bytes (setting xds.maxResponseBytes); the delta variant sends them in parts", ShortType(w.url), limit)
	}
	rest := resourceNames(r.resources[n:])
	r.resources = slices.Clip(r.resources[:n])
	for _, name := range rest {
		w.undeliver(name)
	}
	w.groups = slices.Insert(w.groups, 0, rest)
	r.version, r.parted = sumVersion(r.resources), true
	if r.touched != nil {
		r.touched = resourceNames(r.resources)
	}
	return nil
}
