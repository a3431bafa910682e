package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Limits of the client. Requests are few and one after another, except for the
// pages of a first list, which the default of client-go (5 a second) would
// stretch over minutes. The API server has limits of its own.
const (
	clientQPS   = 100
	clientBurst = 200
)

// Dial returns a client for the cluster that config leads to, and a function
// that closes its connections. Nothing is asked of the cluster yet: an error is
// one of config, never of the network.
func Dial(config *rest.Config) (client kubernetes.Interface, closeAll func(), err error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = clientQPS, clientBurst
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.ContentType = "application/vnd.kubernetes.protobuf"
	// Warnings of the API server are for people who write objects.
	c.WarningHandler = rest.NoWarnings{}
	httpClient, closeAll, err := dialHTTP(c)
	if err != nil {
		return nil, nil, err
	}
	clients, err := kubernetes.NewForConfigAndClient(c, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", c.Host, err)
	}
	return clients, closeAll, nil
}

// dialHTTP returns an HTTP client with connections of its own, which it adds to
// c, and a function that closes them.
func dialHTTP(c *rest.Config) (client *http.Client, closeAll func(), err error) {
	c.UserAgent = "tributary"
	// client-go shares transports between equal configs and closes none. With a
	// dialer and a proxy function of its own each client has its own transport,
	// which ends with it: a rotated credential leaves no connection behind.
	conns := &connections{open: map[*connection]struct{}{}}
	c.Dial = conns.dial
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next, maxAnswer} })
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	httpClient, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", c.Host, err)
	}
	// API servers do not redirect. One that does would have the credential sent
	// to wherever it points.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return httpClient, func() {
		httpClient.CloseIdleConnections()
		conns.close()
	}, nil
}

// connections are the open connections of one client. After close there are
// none, not even from a dial that was under way.
type connections struct {
	mu     sync.Mutex
	closed bool
	open   map[*connection]struct{}
}

type connection struct {
	net.Conn
	of *connections
}

var dialer = net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	tracked := &connection{conn, c}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Conn.Close()
	}
	clear(c.open)
}

// Close closes the connection and forgets it.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// maxAnswer bounds an answer to a list. A page has 500 objects of mostly a few
// kilobytes; a server that sends much more than that means harm.
const maxAnswer = 256 << 20

// bounded makes answers that are too long fail while they are read, since
// client-go reads them whole. Watches are read object by object, and client-go
// bounds each.
type bounded struct {
	http.RoundTripper
	most int64
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "" {
		answer.Body = &boundedBody{answer.Body, b.most}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errors.New("the answer is too long")
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}
