// Package backend is the smallest HTTP server that traffic can be sent to: it
// answers every request with its name, and counts them.
//
// It never looks at a request. Tests start one for each endpoint address, most
// of them in a namespace of package netns. A Backend may be used from any
// goroutine.
package backend

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tributary/test/tb"
)

// Backend is an HTTP server on one address, running or stopped.
type Backend struct {
	name  string
	count atomic.Int64

	mu     sync.Mutex // guards what follows
	addr   string
	server *http.Server // nil while stopped
	served chan struct{}
}

// Start starts a backend that runs until the test ends. With port 0 the kernel
// picks one, which stays the same over Stop and Start.
func Start(t tb.T, addr, name string) *Backend {
	t.Helper()
	b := &Backend{name: name, addr: addr}
	if err := b.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(b.Stop)
	return b
}

// Start starts a stopped backend, on the address from before.
func (b *Backend) Start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		return fmt.Errorf("starting backend %s: it runs", b.name)
	}
	listener, err := net.Listen("tcp", b.addr)
	if err != nil {
		return fmt.Errorf("starting backend %s: %w", b.name, err)
	}
	b.addr = listener.Addr().String()
	b.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(b.answer)}
	b.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(listener) // always an error: Stop's
	}(b.server, b.served)
	return nil
}

func (b *Backend) answer(w http.ResponseWriter, _ *http.Request) {
	b.count.Add(1)
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, b.name) // the client may be gone
}

// Stop closes the listener and all connections, as the end of a process would.
// Stopping a stopped backend does nothing.
func (b *Backend) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil {
		return
	}
	_ = b.server.Close() // the listener is closed, whatever it says
	<-b.served
	b.server = nil
}

// Addr returns the address as host:port.
func (b *Backend) Addr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addr
}

// Count returns how many requests were answered so far.
func (b *Backend) Count() int64 { return b.count.Load() }
