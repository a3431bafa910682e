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
}

func newCache(limit int, m *Metrics) *cache {
	// One CPU is left to the core: encoders on all of them starve it.
	return &cache{
		limit: limit, metrics: m, encoders: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
		young: map[cacheKey]*cacheEntry{}, old: map[cacheKey]*cacheEntry{},
	}
}

// get returns the resource for key, rendering it if it is not there. Others who
// ask for it meanwhile wait for the one rendering.
func (c *cache) get(key cacheKey, render func() *Resource) *Resource {
	c.mu.Lock()
	e := c.young[key]
	if e == nil {
		if e = c.old[key]; e != nil {
			delete(c.old, key)
			if r := e.resource; r != nil {
				c.oldBytes -= r.bytes()
				c.admit(key, e, r.bytes())
			}
		}
	}
	if e != nil {
		c.mu.Unlock()
		e.once.Do(func() {}) // waits for a rendering under way
		if e.resource != nil {
			c.metrics.cacheHit()
			return e.resource
		}
		return render()
	}
	e = &cacheEntry{}
	c.young[key] = e
	c.mu.Unlock()
	e.once.Do(func() {
		c.encoders <- struct{}{}
		defer func() { <-c.encoders }()
		c.metrics.cacheMiss()
		e.resource = render()
	})
	if r := e.resource; r != nil {
		c.mu.Lock()
		if c.young[key] == e {
			c.admit(key, e, r.bytes())
		}
		c.mu.Unlock()
	}
	return e.resource
}

// admit puts an entry of that size into the younger generation.
func (c *cache) admit(key cacheKey, e *cacheEntry, size int) {
	c.young[key] = e
	c.youngBytes += size
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
