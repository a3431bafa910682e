package model

import "time"

// Kind is the kind of the objects in a Batch.
type Kind uint8

const (
	KindService Kind = iota
	KindEndpointSlice
	KindPod
	KindNode
	KindNamespace
	// Kinds is how many there are.
	Kinds
)

func (k Kind) String() string {
	return [...]string{"Service", "EndpointSlice", "Pod", "Node", "Namespace"}[k]
}

// Optional reports whether a source may be without a kind, and then says that
// there are none: without nodes localities are missing, without namespaces their
// labels, and all else is as it was.
func (k Kind) Optional() bool { return k == KindNode || k == KindNamespace }

// Batch is one step of what a source has to say about one kind. A source
// speaks, for each kind: a snapshot (a batch with SnapshotStart, any number of
// others, one with SnapshotEnd; a single batch may be all of it), then changes.
// A new snapshot may follow at any time, and what it does not name is gone.
//
// Upserts go into the field of the kind; the order of batches of one source and
// kind is the order of events.
type Batch struct {
	Source ShardKey
	// Epoch counts the incarnations of a source: it grows with each new
	// credential. What an older epoch still says is ignored, and the first
	// complete snapshot of a newer one replaces all that the older one said.
	Epoch uint64
	Kind  Kind

	Services []*Service
	Slices   []*EndpointSlice
	// Workloads have in their Placement what they say of themselves; what they
	// leave out their registry takes from elsewhere.
	Workloads  []*WorkloadInstance
	Nodes      []*Node
	Namespaces []*Namespace
	Deletes    []NamespacedName // of nodes and namespaces the name alone

	SnapshotStart bool
	SnapshotEnd   bool

	// Removed says that the source is gone for good: everything it said is
	// taken back. Such a batch has a source and an epoch and nothing else.
	Removed bool

	// Share says which part of the endpoints that live in the source's cluster
	// is served from now on, in percent: a step of its drain, or 100 to put all
	// back. 0 says nothing of it; a cluster of which nothing is to be served is
	// removed. Such a batch has a source and an epoch and nothing else.
	Share uint8

	// Received is when the newest event in the batch arrived, for lag metrics.
	Received time.Time
}

// Rows returns how many rows the batch changes.
func (b *Batch) Rows() int {
	return len(b.Services) + len(b.Slices) + len(b.Workloads) + len(b.Nodes) + len(b.Namespaces) + len(b.Deletes)
}
