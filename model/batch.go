package model

import "time"

// Kind is the kind of the objects in a Batch.
type Kind uint8

const (
	KindService Kind = iota
	KindEndpointSlice
	KindPod
	// Kinds is how many there are.
	Kinds
)

func (k Kind) String() string { return [...]string{"Service", "EndpointSlice", "Pod"}[k] }

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

	Services  []*Service
	Slices    []*EndpointSlice
	Workloads []*WorkloadInstance
	Deletes   []NamespacedName

	SnapshotStart bool
	SnapshotEnd   bool

	// Removed says that the source is gone for good: everything it said is
	// taken back. Such a batch has a source and an epoch and nothing else.
	Removed bool

	// Received is when the newest event in the batch arrived, for lag metrics.
	Received time.Time
}

// Rows returns how many rows the batch changes.
func (b *Batch) Rows() int {
	return len(b.Services) + len(b.Slices) + len(b.Workloads) + len(b.Deletes)
}
