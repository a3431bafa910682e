package xds

import (
	"sync"
	"time"
)

// Limits bounds what clients may take. Every bound has a default and an answer
// to "full" that the client can read.
type Limits struct {
	// Streams is how many streams may be open; more are refused with
	// ResourceExhausted and may be tried again. Twice as many connections may be
	// open, so that who is refused can be told; more are closed.
	Streams int
	// ConnectionStreams is how many streams one connection may have; HTTP/2 has
	// the client wait with more.
	ConnectionStreams int
	// StreamRate is how many streams may begin in a second, StreamBurst how many
	// at once. A stream beyond that waits for up to a second and is then refused
	// with ResourceExhausted.
	StreamRate, StreamBurst int
	// Names is how many names of one type a stream may subscribe to.
	Names int
	// Types is how many resource types a stream may ask for.
	Types int
	// MessageBytes is the largest request that is read.
	MessageBytes int
	// ResponseBytes is the largest response. Larger ones are sent in parts, one
	// after the other; where the protocol forbids that (clusters and listeners of
	// the state of the world), the stream ends with ResourceExhausted.
	ResponseBytes int
	// SendTimeout ends a stream whose client does not read.
	SendTimeout time.Duration
	// AckTimeout ends a stream whose client neither acknowledges nor refuses a
	// response. Clients may be slow while they apply a large one.
	AckTimeout time.Duration
	// FirstRequestTimeout ends a stream that says nothing, and a connection without
	// a stream.
	FirstRequestTimeout time.Duration
	// ConnectionAge is when a connection is asked to move, give or take a tenth,
	// so that streams spread over replicas.
	ConnectionAge time.Duration
	// CacheBytes bounds the rendered resources that are kept.
	CacheBytes int
}

// DefaultLimits are generous for honest clients. The rate: 1,000 clients that
// reconnect within a second are to be served within three, so 2,000 a second with
// a burst of 4,000 never delay them, and leave room for four times as many at once;
// beginning 2,000 streams a second is about what two CPUs can do.
func DefaultLimits() Limits {
	return Limits{
		Streams: 20_000, ConnectionStreams: 100, StreamRate: 2000, StreamBurst: 4000,
		Names: 200_000, Types: 32, MessageBytes: 64 << 20, ResponseBytes: 64 << 20,
		SendTimeout: 30 * time.Second, AckTimeout: 5 * time.Minute, FirstRequestTimeout: 30 * time.Second,
		ConnectionAge: 30 * time.Minute, CacheBytes: DefaultCacheBytes,
	}
}

// longestTurn is how long a stream may wait for its turn to begin.
const longestTurn = time.Second

// bucket spreads beginnings over time: burst at once, then rate a second.
type bucket struct {
	rate, burst int

	mu    sync.Mutex
	taken time.Time // when all that was given out will be paid for
}

// take returns how long to wait for the next turn; false if that is longer than
// longest, and no turn is taken then.
func (b *bucket) take(now time.Time, longest time.Duration) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	each := time.Second / time.Duration(b.rate)
	if b.taken.Before(now) {
		b.taken = now
	}
	wait = max(0, b.taken.Add(each).Sub(now)-time.Duration(b.burst)*each)
	if wait > longest {
		return wait, false
	}
	b.taken = b.taken.Add(each)
	return wait, true
}
