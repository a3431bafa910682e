package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Log takes a line about a long step. A nil Log is silent.
type Log func(line string)

func (l Log) printf(format string, args ...any) {
	if l != nil {
		l(fmt.Sprintf(format, args...))
	}
}

// every calls report each 15 seconds until stop is called, so that a long step
// is seen to be alive.
func every(report func(elapsed time.Duration)) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	begin := time.Now()
	go func() {
		defer close(gone)
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				report(time.Since(begin).Round(time.Second))
			}
		}
	}()
	return func() { close(done); <-gone }
}

// dir returns the folder that holds all parts.
func dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache for parts: %w", err)
	}
	return filepath.Join(cache, "tributary", "parts"), nil
}

// once returns the folder named key, and has build fill it if there is none
// yet. A folder under its own name is complete: build gets one under another
// name, which is renamed when build succeeds.
func once(ctx context.Context, key string, log Log, build func(folder string) error) (string, error) {
	root, err := dir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, key)
	if exists(folder) {
		return folder, nil
	}
	unlock, err := lock(ctx, root, key, log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(folder) { // the holder of the lock before us built it
		return folder, nil
	}
	unfinished := folder + ".unfinished" // left behind by a build that was killed, if there
	if err := os.RemoveAll(unfinished); err != nil {
		return "", fmt.Errorf("clearing an unfinished part: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for a part: %w", err)
	}
	begin := time.Now()
	if err := build(unfinished); err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := os.Rename(unfinished, folder); err != nil {
		return "", fmt.Errorf("finishing a part: %w", err)
	}
	log.printf("%s is ready after %v", key, time.Since(begin).Round(time.Second))
	return folder, nil
}

func exists(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}

// lock takes the lock of one part. The kernel drops it when this process ends,
// whatever way.
func lock(ctx context.Context, root, key string, log Log) (unlock func(), err error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache for parts: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(root, "."+key+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", key, err)
	}
	try := time.NewTicker(100 * time.Millisecond)
	defer try.Stop()
	stop := every(func(elapsed time.Duration) {
		log.printf("waiting for another process that builds %s, %v", key, elapsed)
	})
	defer stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", key, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another process that builds %s: %w", key, context.Cause(ctx))
		case <-try.C:
		}
	}
}
