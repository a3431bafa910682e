package dirwatch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func start(t *testing.T, dir string) <-chan []string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan []string, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, dir, func(names []string) { told <- names })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		goleak.VerifyNone(t)
	})
	return told
}

func next(t *testing.T, told <-chan []string) []string {
	t.Helper()
	select {
	case names := <-told:
		return names
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was told")
		return nil
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchTellsChanges(t *testing.T) {
	dir := t.TempDir()
	told := start(t, dir)
	if names := next(t, told); names != nil {
		t.Errorf("first told %q", names)
	}
	touch(t, filepath.Join(dir, "b"))
	touch(t, filepath.Join(dir, "a"))
	var all []string
	for len(all) < 2 { // in one burst, unless the machine is very slow
		all = append(all, next(t, told)...)
	}
	if slices.Sort(all); !slices.Equal(all, []string{"a", "b"}) {
		t.Errorf("told %q", all)
	}
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	all = nil
	for !slices.Contains(all, "c") {
		all = append(all, next(t, told)...)
	}
}

func TestWatchSurvivesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	told := start(t, dir)
	next(t, told) // not there, and told all the same
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	next(t, told)
	touch(t, filepath.Join(dir, "x"))
	for !slices.Contains(next(t, told), "x") {
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(dir, "y"))
	// Either the event comes, or a look at everything after the file was there.
	for names := next(t, told); names != nil && !slices.Contains(names, "y"); names = next(t, told) {
	}
}
