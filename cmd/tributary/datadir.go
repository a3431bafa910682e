package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockDataDir makes dir this process's own until the returned file is closed.
// The lock is the kernel's, so it ends with the process, however that ends.
func lockDataDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory (--data-dir): %w", err)
	}
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory (--data-dir): %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the data directory %s: %w", dir, err)
		}
		owner, _ := os.ReadFile(name)
		return nil, fmt.Errorf("the data directory %s is in use by process %s: set another one with --data-dir (dataDir)", dir, strings.TrimSpace(string(owner)))
	}
	if err := f.Truncate(0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("writing to the data directory %s: %w", dir, err)
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("writing to the data directory %s: %w", dir, err)
	}
	return f, nil
}
