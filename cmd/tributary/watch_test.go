package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/debug"
	"tributary/debug/sample"
)

// screen collects what a command writes, and wakes who waits for it.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// wait waits until the screen shows a text.
func (s *screen) wait(t *testing.T, want string) {
	t.Helper()
	for end := time.After(20 * time.Second); !strings.Contains(s.String(), want); {
		select {
		case <-s.changed:
		case <-end:
			t.Fatalf("waited in vain for %q; it shows:\n%s", want, s)
		}
	}
}

// site is a server that can end and come back at its address.
type site struct {
	t       *testing.T
	address string
	stop    func()
}

func (s *site) start(f *sample.Fleet) {
	s.t.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	server := debug.New(f.Sources())
	go func() { defer close(done); _ = server.Serve(ctx, l) }()
	s.stop = func() { cancel(); <-done }
}

// watch runs get -w until the test ends it.
func watch(t *testing.T, args ...string) (out, notes *screen, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, notes = newScreen(), newScreen()
	cmd := getCommandAt(func() time.Time { return noon })
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(out)
	cmd.SetErr(notes)
	cmd.SetArgs(append(args, "-w"))
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	return out, notes, func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("get -w does not end")
			return nil
		}
	}
}

func TestWatchSurvivesARestart(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := &site{t: t, address: "127.0.0.1:0"}
	f := sample.New(noon)
	f.SetReady(true)
	s.start(f)
	out, notes, end := watch(t, "services", "--http-address", s.address)
	out.wait(t, "reviews.shop.svc.cluster.local")
	out.wait(t, "EVENT")
	listed := strings.Count(out.String(), "\n")
	f.Remove()
	out.wait(t, "DELETED")
	f.Apply(sample.Delta())
	for out.wait(t, "DELETED"); strings.Count(out.String(), "reviews.shop") < 3; {
		<-out.changed
	}
	if got := strings.Count(out.String(), "\n") - listed; got != 2 {
		t.Errorf("one service went and came back, and %d lines were added:\n%s", got, out)
	}

	// The server ends, and comes back with other clusters to read first: nothing
	// has gone because of that.
	s.stop()
	notes.wait(t, "The connection is lost, trying again")
	lines := strings.Count(out.String(), "\n")
	again := sample.New(noon)
	again.Remove()
	s.start(again)
	notes.wait(t, "The server is back and reads its clusters.")
	if got := strings.Count(out.String(), "\n"); got != lines {
		t.Errorf("before the server is ready %d lines were added:\n%s", got-lines, out)
	}
	again.SetReady(true)
	notes.wait(t, "The server is back.\n")
	for strings.Count(out.String(), "DELETED") < 2 {
		<-out.changed
	}
	if got := strings.Count(out.String(), "\n") - lines; got != 1 {
		t.Errorf("one service is missing after the restart, and %d lines were added:\n%s", got, out)
	}
	if err := end(); err != nil {
		t.Errorf("ended by the user: %v", err)
	}
	s.stop()
	client.CloseIdleConnections()
	streamClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

// Rows have one width for each column, and what changes by itself is no change.
func TestWatchTable(t *testing.T) {
	s := &site{t: t, address: "127.0.0.1:0"}
	f := sample.New(noon)
	s.start(f)
	defer func() { s.stop() }()
	out, notes, end := watch(t, "endpoints", "cart", "--sort-by", "state", "-n", "shop", "--http-address", s.address)
	out.wait(t, "shadowed")
	notes.wait(t, "Nothing is known yet of north")
	f.Apply(sample.Delta()) // the same again
	f.Remove()              // another service
	f.SetProxies(nil)
	if err := end(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("got:\n%s", out)
	}
	at := strings.Index(lines[0], "STATE")
	for _, line := range lines[1:] {
		if state := line[at:]; !strings.HasPrefix(state, "served") && !strings.HasPrefix(state, "shadowed") {
			t.Errorf("columns are not aligned:\n%s", out)
		}
	}
	if !strings.Contains(lines[3], "shadowed") {
		t.Errorf("it is not sorted by state:\n%s", out)
	}
}

func TestWatchJSON(t *testing.T) {
	s := &site{t: t, address: "127.0.0.1:0"}
	f := sample.New(noon)
	s.start(f)
	defer func() { s.stop() }()
	out, _, end := watch(t, "proxies", "-o", "json", "--http-address", s.address)
	out.wait(t, "reviews-2")
	f.SetProxies(sample.Proxies(noon)[:1])
	out.wait(t, `"DELETED"`)
	for strings.Count(out.String(), `"DELETED"`) < 3 {
		<-out.changed
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	types := map[string]int{}
	for d := json.NewDecoder(strings.NewReader(out.String())); ; {
		var c change[debug.Proxy]
		err := d.Decode(&c)
		if err == io.EOF {
			break
		}
		if err != nil || c.Object.ID == "" {
			t.Fatalf("%v %+v", err, c)
		}
		types[c.Type]++
	}
	if types["ADDED"] != 4 || types["DELETED"] != 3 || len(types) != 2 {
		t.Errorf("got %v", types)
	}
}

// Whoever cannot be reached at first is told so, as without -w.
func TestWatchUnreachable(t *testing.T) {
	_, _, err := run(t, "services", "-w", "--http-address", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "nobody answers") {
		t.Errorf("got %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := &http.Server{Handler: http.NotFoundHandler()}
	defer server.Close()
	go func() { _ = server.Serve(l) }()
	if _, _, err := run(t, "services", "-w", "--http-address", l.Addr().String()); err == nil || !strings.Contains(err.Error(), "is not Tributary's HTTP page") {
		t.Errorf("got %v", err)
	}
}
