package debug_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/debug"
	"tributary/debug/sample"
)

// serve runs a server on a port of its own; stop ends it, then runs after, and
// checks that nothing is left.
func serve(t *testing.T) (base string, f *sample.Fleet, stop func(after ...func())) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	f = sample.New(time.Now())
	s := debug.New(f.Sources())
	s.SetPace(10*time.Millisecond, 20*time.Millisecond)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	return "http://" + l.Addr().String(), f, func(after ...func()) {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Serve does not return")
		}
		for _, f := range after {
			f()
		}
		http.DefaultClient.CloseIdleConnections()
		if n := f.Waiters(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
		goleak.VerifyNone(t, before)
	}
}

// listen opens the event stream.
func listen(ctx context.Context, t *testing.T, base string) (*http.Response, func() debug.Event) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	return resp, func() (e debug.Event) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return e
	}
}

func TestEvents(t *testing.T) {
	base, f, stop := serve(t)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp, next := listen(ctx, t, base)
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %s", got)
	}
	e := next()
	if e.Revision != 1 || e.Services != 5 || e.Endpoints != 12 || e.Served != 7 || e.Ready || len(e.Waiting) != 1 || e.Clusters["synced"] != 1 || e.Proxies["ERROR"] != 1 {
		t.Errorf("the first event is %+v", e)
	}

	late, lateNext := listen(ctx, t, base)
	defer late.Body.Close()
	if got := lateNext(); got.Revision != e.Revision {
		t.Errorf("who comes later is told of revision %d first", got.Revision)
	}

	f.Remove()
	removed := next()
	if removed.Revision != 2 || removed.Services != 4 || removed.ClustersMark != e.ClustersMark || removed.ProxiesMark != e.ProxiesMark {
		t.Errorf("after a removal: %+v", removed)
	}
	f.SetProxies(nil)
	if got := next(); got.ProxiesMark == e.ProxiesMark || len(got.Proxies) != 0 {
		t.Errorf("after the proxies went: %+v", got)
	}
	f.SetReady(true)
	if got := next(); !got.Ready || len(got.Waiting) != 0 {
		t.Errorf("once ready: %+v", got)
	}
}

// A thousand changes at once are a few messages, and the last one is the newest.
func TestEventsCoalesce(t *testing.T) {
	base, f, stop := serve(t)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp, next := listen(ctx, t, base)
	defer resp.Body.Close()
	next()
	for range 1000 {
		f.Apply(sample.Delta())
	}
	messages := 1
	for next().Revision < 1001 {
		messages++
	}
	if messages > 100 {
		t.Errorf("%d messages", messages)
	}
}

func TestEventsBounded(t *testing.T) {
	base, f, stop := serve(t)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range debug.MaxListeners {
		resp, next := listen(ctx, t, base)
		defer resp.Body.Close()
		next()
	}
	resp, _ := listen(ctx, t, base)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", resp.Status)
	}
	if n := f.Waiters(); n != 1 {
		t.Errorf("%d subscriptions for all listeners, want 1", n)
	}
}

// When all listeners have left, nothing waits for changes any more, and the next
// one starts anew.
func TestEventsEndAndStartAgain(t *testing.T) {
	base, f, stop := serve(t)
	defer stop()
	for round := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		resp, next := listen(ctx, t, base)
		if next().Revision == 0 {
			t.Error("an empty event")
		}
		cancel()
		_ = resp.Body.Close()
		for deadline := time.Now().Add(5 * time.Second); f.Waiters() > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: the subscription stays", round)
			}
		}
	}
}

// A listener and a request that never ends do not keep the server from ending.
func TestServeEnds(t *testing.T) {
	base, _, stop := serve(t)
	resp, next := listen(t.Context(), t, base)
	defer resp.Body.Close()
	next()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	begun := time.Now()
	stop(func() { _ = resp.Body.Close() })
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
