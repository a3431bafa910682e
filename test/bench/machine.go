package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what all CPUs of the machine have done so far.
type usage struct{ idle, all float64 }

// machine reads it.
func machine() (u usage, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	const idle, wait, guest = 4, 5, 9 // fields of proc_stat(5); guests are counted as users too
	for i, text := range f[1:min(len(f), guest)] {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return u, fmt.Errorf("reading the machine's CPU time: %w", err)
		}
		u.all += n
		if i+1 == idle || i+1 == wait {
			u.idle += n
		}
	}
	return u, nil
}

// idleSince returns which part of the CPUs was idle since then.
func (u usage) idleSince(then usage) float64 {
	if u.all == then.all {
		return 1
	}
	return (u.idle - then.idle) / (u.all - then.all)
}

// waitQuiet waits until others have left most of the machine idle for some
// seconds, but no longer than limit: what is measured beside them is told to be
// so by the results' idle share.
func waitQuiet(ctx context.Context, limit time.Duration) error {
	const seconds, share = 3, 0.8
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		before, err := machine()
		if err != nil {
			return err
		}
		if err := pause(ctx, seconds*time.Second); err != nil {
			return err
		}
		after, err := machine()
		if err != nil {
			return err
		}
		if after.idleSince(before) >= share {
			return nil
		}
	}
	return nil
}
