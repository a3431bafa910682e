package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// profiles fetches profiles of servers that have them, into files. A nil one
// fetches nothing.
type profiles struct {
	dir  string
	name string // of the run, starts the files' names
}

// cpu starts a CPU profile of the next duration, and returns what waits for it.
func (p *profiles) cpu(ctx context.Context, s *server, d time.Duration) (wait func()) {
	seconds := int(d.Seconds())
	if p == nil || s.http == "" || seconds == 0 {
		return func() {}
	}
	var done sync.WaitGroup
	done.Go(func() { p.fetch(ctx, s, fmt.Sprintf("profile?seconds=%d", seconds), "cpu") })
	return done.Wait
}

// heap writes what the server's heap holds, after a collection. It comes after
// the memory is read, as it changes it.
func (p *profiles) heap(ctx context.Context, s *server, when string) {
	if p != nil && s.http != "" {
		p.fetch(ctx, s, "heap?gc=1", "heap-"+when)
	}
}

// fetch fetches one profile. A failure is told, and no reason to end the run.
func (p *profiles) fetch(ctx context.Context, s *server, what, kind string) {
	file := filepath.Join(p.dir, p.name+"-"+kind+".pprof")
	err := func() error {
		if err := os.MkdirAll(p.dir, 0o755); err != nil {
			return err
		}
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		if err := get(ctx, "http://"+s.http+"/debug/pprof/"+what, f); err != nil {
			_ = f.Close() // the first error is the one to tell
			return err
		}
		return f.Close()
	}()
	if err != nil {
		say(fmt.Sprintf("fetching %s: %v", file, err))
		return
	}
	say("wrote " + file)
}
