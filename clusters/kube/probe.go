package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Prober asks an API server whether it is there. It has one connection of its
// own, with HTTP/1.1: a probe that is given up closes it, so that the next one
// learns soon whether there is a way again.
type Prober struct {
	client *http.Client
	url    string
	close  func()
}

// probePath is what API servers answer at once and to everybody who may be
// there at all; they do not count it towards anybody's share of requests.
const probePath = "livez"

// NewProber returns a prober for the cluster that config leads to. Nothing is
// asked of it yet: an error is one of config, never of the network.
func NewProber(config *rest.Config) (*Prober, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of %s: %w", config.Host, err)
	}
	c := rest.CopyConfig(config)
	c.NextProtos = []string{"http/1.1"}
	client, closeAll, err := dialHTTP(c)
	if err != nil {
		return nil, err
	}
	return &Prober{client, server.JoinPath(probePath).String(), closeAll}, nil
}

// Probe implements clusters.Prober. Any answer counts by which a server shows
// that it is there and accepts the credential: also that it is asked too often
// (429), or that this path is not for everybody (403, 404). A redirect and
// whatever is at fault on the other side (5xx, also of a proxy that does not
// reach the server) do not.
func (p *Prober) Probe(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return fmt.Errorf("asking whether the API server is there: %w", err)
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return errors.New(clip(textOf(err)))
	}
	defer answer.Body.Close()
	// Read to its end, if that is near, the connection can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4<<10))
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized:
		return apierrors.NewUnauthorized("the API server refuses the credential")
	case code >= 300 && code < 400:
		return errors.New("it redirects elsewhere, which is not followed")
	case code >= 500:
		return fmt.Errorf("it answers %d %s", code, http.StatusText(code))
	}
	return nil
}

// Close closes the connection.
func (p *Prober) Close() { p.close() }
