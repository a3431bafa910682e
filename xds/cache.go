package xds

import (
	"runtime"
	"sync"
)

// DefaultCacheBytes bounds the rendered resources that are kept.
const DefaultCacheBytes = 256 << 20

// cacheKey is every input that a resource was rendered from. Owner is a pointer
// to something immutable, so an entry can be unused but never wrong: there is
// nothing to invalidate (I:6 B34).
type cacheKey struct {
	url   string
	class Class
	tls   bool   // for clients that can speak mutual TLS
	owner any    // *model.Definition, *shards.Service, a revision
	port  uint16 // service port, or port of the listener
	scope string // namespace of the clients, where it matters
}

// cache keeps rendered resources in two generations. When the younger one is
// half the limit it becomes the older one, and the older one goes; what is used
// moves to the younger. So it is bounded in bytes and keeps what is asked for
// without a list to maintain.
type cache struct {
	limit    int
	encoders chan struct{} // bounds how many CPUs render at once
	metrics  *Metrics

	mu         sync.Mutex
	young, old map[cacheKey]*cacheEntry
	youngBytes int
	oldBytes   int
}

type cacheEntry struct {
	once     sync.Once
	resource *Resource // nil if it could not be rendered
	size     int       // guarded by the cache's mu; 0 until it is rendered
}

// entryOverhead is what an entry takes beside the bytes of its resource.
const entryOverhead = 256

func newCache(limit int, m *Metrics) *cache {
	// One CPU is left to the core: encoders on all of them starve it.
	return &cache{
		limit: limit, metrics: m, encoders: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
		young: map[cacheKey]*cacheEntry{}, old: map[cacheKey]*cacheEntry{},
	}
}

// get returns the resource for key, rendering it if it is not there; nil if it
// cannot be rendered. Others who ask for it meanwhile wait for the one rendering.
func (c *cache) get(key cacheKey, render func() *Resource) *Resource {
	c.mu.Lock()
	e := c.young[key]
	if e == nil {
		if e = c.old[key]; e != nil {
			delete(c.old, key)
			c.oldBytes -= e.size
		} else {
			e = &cacheEntry{}
		}
		c.young[key] = e
		c.grow(e.size)
	}
	c.mu.Unlock()
	rendered := false
	// Whoever comes first renders, not whoever made the entry.
	e.once.Do(func() {
		c.encoders <- struct{}{}
		defer func() { <-c.encoders }()
		e.resource, rendered = render(), true
	})
	if !rendered {
		c.metrics.cacheHit()
		return e.resource
	}
	c.metrics.cacheMiss()
	c.mu.Lock()
	defer c.mu.Unlock()
	size := entryOverhead
	if e.resource != nil {
		size += e.resource.bytes()
	}
	switch e.size = size; e {
	case c.young[key]:
		c.grow(size)
	case c.old[key]: // the generations turned meanwhile
		c.oldBytes += size
	}
	return e.resource
}

// grow counts bytes for the younger generation.
func (c *cache) grow(bytes int) {
	c.youngBytes += bytes
	if c.youngBytes > c.limit/2 {
		c.old, c.oldBytes = c.young, c.youngBytes
		c.young, c.youngBytes = map[cacheKey]*cacheEntry{}, 0
		c.metrics.cacheTurned()
	}
}

// size returns how many bytes are kept.
func (c *cache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.youngBytes + c.oldBytes
}
