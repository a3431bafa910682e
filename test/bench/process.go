package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// process reads what /proc says of a process.
type process int

// tick is the unit of CPU time in /proc: USER_HZ, which is 100 on all of Linux.
const tick = 10 * time.Millisecond

// cpu returns the user and system time that the process has used.
func (p process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		return 0, fmt.Errorf("reading the server's CPU time: %w", err)
	}
	// The program's name stands in parentheses and may hold anything.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	f := strings.Fields(rest) // from the third field of proc(5) on
	const user, system = 14 - 3, 15 - 3
	if len(f) <= system {
		return 0, fmt.Errorf("reading the server's CPU time: %q", b)
	}
	u, err := strconv.ParseInt(f[user], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the server's CPU time: %w", err)
	}
	s, err := strconv.ParseInt(f[system], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the server's CPU time: %w", err)
	}
	return time.Duration(u+s) * tick, nil
}

// memory returns the process's resident memory now and at its highest, in MB.
func (p process) memory() (now, peak float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the server's memory: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "VmRSS:" && f[0] != "VmHWM:" {
			continue
		}
		kb, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading the server's memory: %w", err)
		}
		if f[0] == "VmRSS:" {
			now = kb * 1024 / 1e6
		} else {
			peak = kb * 1024 / 1e6
		}
	}
	return now, peak, nil
}

// settle waits until the process has done next to nothing for a time, at most
// ten times as long.
func (p process) settle(ctx context.Context, quiet time.Duration) error {
	deadline := time.Now().Add(10 * quiet)
	last, err := p.cpu()
	if err != nil {
		return err
	}
	since := time.Now()
	for time.Since(since) < quiet && time.Now().Before(deadline) {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now, err := p.cpu()
		if err != nil {
			return err
		}
		if now-last > 5*tick {
			since = time.Now()
		}
		last = now
	}
	return nil
}
