package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"tributary/shards"
)

// Renderer renders resources for one client without a stream, as a stream of
// that client would. It is for tools that measure or check; a Server has its own.
// Safe for concurrent use.
type Renderer struct {
	renderer *renderer
	node     Node
}

// NewRenderer returns a renderer for a client that says this of itself. It keeps
// what it rendered, up to that many bytes; failed is told what cannot be rendered.
func NewRenderer(n *corev3.Node, cacheBytes int, failed func(url, name string, err error)) *Renderer {
	return &Renderer{&renderer{cache: newCache(cacheBytes, nil), failed: failed}, newNode(n)}
}

// Render returns the resource of that type and name in a snapshot; nil if there
// is none.
func (r *Renderer) Render(s *shards.Snapshot, url, name string) *Resource {
	v := &view{renderer: r.renderer, snapshot: s, node: &r.node}
	return v.get(url, name)
}
