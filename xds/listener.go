package xds

import (
	"net"
	"sync"
	"sync/atomic"
)

// listener bounds and counts connections. One too many is closed at once: it has
// sent nothing yet, so nothing can be answered.
type listener struct {
	net.Listener
	limit   int64
	metrics *Metrics
	open    atomic.Int64
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err // of the listener that was given; gRPC knows the kinds of it
		}
		if n := l.open.Add(1); n > l.limit {
			l.open.Add(-1)
			l.metrics.connectionsRefused.Inc()
			_ = c.Close() // it is of no use, whatever that says
			continue
		}
		l.metrics.connections.Inc()
		return &conn{Conn: c, listener: l}, nil
	}
}

// conn is one connection of a listener.
type conn struct {
	net.Conn
	listener *listener
	once     sync.Once
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.listener.open.Add(-1)
		c.listener.metrics.connections.Dec()
	})
	return c.Conn.Close()
}
