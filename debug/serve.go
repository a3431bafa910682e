package debug

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Bounds of a client. A response of any size may be written, but each part of
// it within writeTimeout; a stream of events has its own clock.
const (
	headerTimeout  = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 60 * time.Second
	drainTimeout   = 5 * time.Second
	maxHeaderBytes = 16 << 10
	maxWalks       = 4                // requests at a time that walk the whole registry
	walkPatience   = 10 * time.Second // of a further one
)

// Serve answers requests on l until ctx ends. Then it lets running requests
// finish, for a short time, and returns after all of its goroutines.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.hosts.Store(newHosts(s.sources.Address, l.Addr()))
	// There is no ReadTimeout: it would end the context of a stream of events or
	// a profile that runs for longer. No request with a body gets past guard.
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if srv.Shutdown(limit) != nil {
			_ = srv.Close() // whoever is still there does not read
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-drained
	}
	s.handlers.Wait()
	s.hub.wait()
	if ctx.Err() == nil {
		return fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	}
	return nil // it was asked to end
}

// extend gives a handler that writes in parts the full time for the next part.
func extend(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not all writers have one
}
