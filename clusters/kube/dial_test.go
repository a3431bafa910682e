package kube

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"tributary/model"
)

// Each rotation leaves neither a connection nor a goroutine behind, although
// all clients have the same TLS settings, which client-go would share.
func TestDialLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	before := goleak.IgnoreCurrent()
	for range 20 {
		client, closeAll, err := Dial(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "t"})
		if err != nil {
			t.Fatal(err)
		}
		w := NewWatcher(WatchConfig{Source: testSource, Client: client, Close: closeAll})
		ctx, cancel := context.WithCancel(t.Context())
		var ends atomic.Int32
		err = w.Run(ctx, func(_ context.Context, b model.Batch) error {
			if b.SnapshotEnd && ends.Add(1) == int32(model.Kinds) {
				cancel()
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	server.CloseClientConnections()
	server.Close()
	goleak.VerifyNone(t, before)
}

func TestDialDoesNotFollowRedirects(t *testing.T) {
	asked := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
	}))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	client, closeAll, err := Dial(&rest.Config{Host: server.URL, BearerToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	_, err = client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	select {
	case <-asked:
		t.Error("the redirect was followed")
	default:
	}
}

// A server that answers without end is not read without end.
func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: bounded{http.DefaultTransport, 1 << 20}}
	for path, endless := range map[string]bool{"/api/v1/pods?limit=500": false, "/api/v1/pods?watch=true": true} {
		answer, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 10<<20))
		if got := n == 10<<20; got != endless || endless != (err == nil) {
			t.Errorf("%s: read %d bytes, error %v", path, n, err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
