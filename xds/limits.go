package xds

import "time"

// Limits bounds what clients may take. Every bound has a default and an answer
// to "full" that the client can read.
type Limits struct {
	// Streams is how many streams may be open; more are refused with
	// ResourceExhausted and may be tried again.
	Streams int
	// Names is how many names of one type a stream may subscribe to.
	Names int
	// Types is how many resource types a stream may ask for.
	Types int
	// MessageBytes is the largest request that is read.
	MessageBytes int
	// SendTimeout ends a stream whose client does not read.
	SendTimeout time.Duration
	// AckTimeout ends a stream whose client neither acknowledges nor refuses a
	// response. Clients may be slow while they apply a large one.
	AckTimeout time.Duration
	// FirstRequestTimeout ends a stream that says nothing.
	FirstRequestTimeout time.Duration
	// ConnectionAge is when a connection is asked to move, give or take a tenth,
	// so that streams spread over replicas.
	ConnectionAge time.Duration
	// CacheBytes bounds the rendered resources that are kept.
	CacheBytes int
}

// DefaultLimits are generous for honest clients.
func DefaultLimits() Limits {
	return Limits{
		Streams: 20_000, Names: 200_000, Types: 32, MessageBytes: 16 << 20,
		SendTimeout: 30 * time.Second, AckTimeout: 5 * time.Minute, FirstRequestTimeout: 30 * time.Second,
		ConnectionAge: 30 * time.Minute, CacheBytes: DefaultCacheBytes,
	}
}
