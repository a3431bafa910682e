package clusters

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/model"
)

// The directories of a fleet come and go. Directories are real, so time is too.
func TestFleet(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	mkdir := func(name string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mkdir("east")
	mkdir(".git")
	mkdir("not an ID")
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	happened := make(chan string, 100)
	m, err := New(Options{
		Fleet: dir, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		NewRunner: func(s Spec) (Runner, error) { return &echo{s, happened}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- m.Run(ctx, func(_ context.Context, b model.Batch) error {
			if b.Removed {
				happened <- "removed " + string(b.Source.Cluster)
			} else {
				m.Synced(model.Synced{Source: b.Source, Epoch: b.Epoch})
			}
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-happened:
			if got != want {
				t.Errorf("happened: %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not happen", want)
		}
	}
	expect("start east in " + filepath.Join(dir, "east"))
	mkdir("west")
	expect("start west in " + filepath.Join(dir, "west"))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if ready, _ := m.Ready(time.Now()); ready {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("not ready")
		}
	}
	if err := os.Rename(filepath.Join(dir, "east"), filepath.Join(dir, ".east")); err != nil {
		t.Fatal(err)
	}
	expect("end east")
	expect("removed east")
	cancel()
	expect("end west")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "cannot be a cluster ID"); n != 1 {
		t.Errorf("the odd directory was told %d times:\n%s", n, log.String())
	}
}

// echo is a source that is complete at once.
type echo struct {
	spec     Spec
	happened chan<- string
}

func (e *echo) Health() model.SourceHealth { return model.SourceHealth{} }

func (e *echo) Run(ctx context.Context, out func(context.Context, model.Batch) error) error {
	e.happened <- "start " + string(e.spec.Source.Cluster) + " in " + e.spec.Dir
	err := out(ctx, model.Batch{Source: e.spec.Source, Epoch: e.spec.Epoch})
	<-ctx.Done()
	e.happened <- "end " + string(e.spec.Source.Cluster)
	return err
}
