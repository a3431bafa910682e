package clusters

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"tributary/internal/dirwatch"
	"tributary/model"
)

// fleet follows a directory of which each subdirectory is a cluster, named as
// the subdirectory is.
type fleet struct {
	dir     string
	log     *slog.Logger
	changed func() // wakes the manager

	mu     sync.Mutex
	listed bool
	err    error
	claims []claim // sorted by ID
	odd    map[string]bool
}

// clusterID is what a subdirectory must be called to be a cluster: the same
// characters that a key of a secret may have.
var clusterID = regexp.MustCompile(`^[a-zA-Z0-9][-._a-zA-Z0-9]{0,252}$`)

func (f *fleet) snapshot() (claims []claim, listed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims, f.listed, f.err
}

// run follows the directory until ctx ends.
func (f *fleet) run(ctx context.Context) {
	dirwatch.Watch(ctx, f.dir, func([]string) {
		f.look()
		f.changed()
	})
}

// look reads which subdirectories there are. A directory that cannot be read
// tells nothing: the clusters known before stay.
func (f *fleet) look() {
	entries, err := os.ReadDir(f.dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err != nil {
		f.err = fmt.Errorf("reading the fleet: %w", err)
		return
	}
	var claims []claim
	odd := map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(f.dir, e.Name())
		// A symbolic link to a directory is one.
		if stat, err := os.Stat(path); err != nil || !stat.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if !clusterID.MatchString(e.Name()) {
			if odd[e.Name()] = true; !f.odd[e.Name()] {
				f.log.Warn("directory is ignored, its name cannot be a cluster ID", "dir", path)
			}
			continue
		}
		claims = append(claims, claim{id: model.ClusterID(e.Name()), kind: Directory, dir: path})
	}
	f.claims, f.odd, f.listed = claims, odd, true
}
