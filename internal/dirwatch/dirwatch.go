package dirwatch

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Settle is how long the directory must be quiet before a change is told, so
// that a file is not read while it is being written.
const Settle = 50 * time.Millisecond

// maxSettle bounds the wait: a file that is written all the time is told too.
const maxSettle = 10 * Settle

// poll is how often a directory is looked at that cannot be watched: it is
// missing, its file system sends no events, or the limit of the system for
// watches (fs.inotify.max_user_instances) is reached.
const poll = time.Second

// Watch calls changed at once, and again after each change of an entry of dir,
// until ctx ends. names are the base names of entries that were touched, sorted;
// nil means that any may have been. The directory need not exist: it may come,
// go and come again.
func Watch(ctx context.Context, dir string, changed func(names []string)) {
	for ctx.Err() == nil {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			if err = w.Add(dir); err == nil {
				changed(nil)
				follow(ctx, w, dir, changed)
			}
			_ = w.Close() // nothing is lost with it but the events of a watch given up
		}
		if err != nil {
			changed(nil)
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
}

// follow tells changes until ctx ends or the watch is of no more use.
func follow(ctx context.Context, w *fsnotify.Watcher, dir string, changed func([]string)) {
	touched := map[string]bool{}
	var first time.Time
	settled := time.NewTimer(Settle)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if filepath.Clean(e.Name) == filepath.Clean(dir) {
				if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
					return // the directory itself went, and the watch with it
				}
				continue
			}
			now := time.Now()
			if len(touched) == 0 {
				first = now
			}
			touched[filepath.Base(e.Name)] = true
			settled.Reset(max(0, min(Settle, maxSettle-now.Sub(first))))
		case <-w.Errors: //nolint:errcheck // whatever it is, it means the same
			return // events were lost: look at everything again
		case <-settled.C:
			names := make([]string, 0, len(touched))
			for n := range touched {
				names = append(names, n)
			}
			slices.Sort(names)
			clear(touched)
			changed(names)
		}
	}
}
