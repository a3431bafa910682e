package clusters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tributary/internal/dirwatch"
)

// files follows a directory of kubeconfigs, one file a cluster. The name of a
// file means nothing but precedence: the kubeconfig tells which cluster it is.
// Kubeconfigs here are trusted no more than those of secrets, since such a
// directory is mostly a mounted secret.
type files struct {
	dir           string
	allowInsecure bool
	changed       func() // wakes the manager

	mu     sync.Mutex
	listed bool
	err    error
	claims []claim // sorted by file
}

func (f *files) snapshot() (claims []claim, listed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims, f.listed, f.err
}

// run follows the directory until ctx ends.
func (f *files) run(ctx context.Context) {
	dirwatch.Watch(ctx, f.dir, func([]string) {
		f.look()
		f.changed()
	})
}

// look reads all files. They are small and few, and mounted secrets change all
// at once behind a symbolic link of another name. A directory that cannot be
// read tells nothing: the clusters known before stay.
func (f *files) look() {
	entries, err := os.ReadDir(f.dir)
	before, _, _ := f.snapshot() // only this goroutine writes
	var claims []claim
	if err == nil {
		for _, e := range entries {
			path := filepath.Join(f.dir, e.Name())
			stat, err := os.Stat(path)
			if strings.HasPrefix(e.Name(), ".") || errors.Is(err, os.ErrNotExist) || err == nil && stat.IsDir() {
				continue
			}
			claims = append(claims, readClaim(path, before, f.allowInsecure))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err != nil {
		f.err = fmt.Errorf("reading the directory of kubeconfigs: %w", err)
		return
	}
	f.claims, f.listed = claims, true
}

// readClaim reads one kubeconfig. One that cannot be read any more, or no longer
// tells whose it is, is still the claim on the cluster that it was before.
func readClaim(path string, before []claim, allowInsecure bool) claim {
	data, err := readSmall(path)
	c := claim{kind: Remote, file: path, sum: sha256.Sum256(data)}
	i := slices.IndexFunc(before, func(b claim) bool { return b.file == path })
	if err == nil {
		if i >= 0 && before[i].sum == c.sum {
			return before[i]
		}
		c.id, c.config, err = parseKubeconfigFile(data, allowInsecure)
	} else {
		c.sum = sha256.Sum256([]byte(err.Error()))
	}
	if c.id == "" && i >= 0 {
		c.id = before[i].id
	}
	if err != nil {
		c.config = nil
		c.err = fmt.Errorf("kubeconfig in file %s: %w", path, err)
	}
	return c
}

// readSmall reads a regular file: opening a pipe would wait for ever.
func readSmall(path string) ([]byte, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if !stat.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxKubeconfig+1))
}
