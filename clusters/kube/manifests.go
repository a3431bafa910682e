package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tributary/internal/dirwatch"
	"tributary/model"
)

// ManifestsConfig says which directory stands for a cluster.
type ManifestsConfig struct {
	Source       model.ShardKey
	Epoch        uint64
	Dir          string
	DomainSuffix string       // of hosts; default DefaultDomainSuffix
	Logger       *slog.Logger // default slog.Default()
}

// Manifests plays one cluster from a directory of ordinary manifests: what
// kubectl apply -f DIR would create there, without an API server.
type Manifests struct {
	config  ManifestsConfig
	convert converter
	health

	// Owned by the goroutine of Run.
	files  map[string]*manifestFile
	warned map[string]bool // kinds and overrides that were told
	sent   bool
}

// manifestFile is a file as it was read last.
type manifestFile struct {
	stat fs.FileInfo
	sum  [sha256.Size]byte
	good *manifest // as of the last time it could be read; nil if never
	err  error     // why it cannot be read now
}

// maxManifest is the size of a file above which it is refused.
const maxManifest = 64 << 20

// maxWarned bounds what is remembered of warnings.
const maxWarned = 1000

// NewManifests returns a source that does nothing before Run.
func NewManifests(c ManifestsConfig) *Manifests {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("cluster", c.Source.Cluster)
	return &Manifests{
		config: c, convert: newConverter(c.Source, c.DomainSuffix),
		files: map[string]*manifestFile{}, warned: map[string]bool{},
	}
}

// Run reads the directory and follows its changes until ctx ends, then returns
// nil; or until out fails, then returns why. It is called once. After each
// change all rows are sent as a snapshot. A file that cannot be read is told in
// the log and in Health, and keeps what it said before; so does a directory.
func (m *Manifests) Run(ctx context.Context, out func(context.Context, model.Batch) error) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	dirwatch.Watch(running, m.config.Dir, func(names []string) {
		if !m.reread(names) {
			return
		}
		if err := m.send(running, out); err != nil {
			failed = err
			cancel()
		}
	})
	if failed != nil && ctx.Err() == nil {
		return fmt.Errorf("handing over the manifests of cluster %s: %w", m.config.Source.Cluster, failed)
	}
	return nil
}

// reread reads the files that changed: those in touched, and those that look
// different from outside. It reports whether there is something new to send.
func (m *Manifests) reread(touched []string) (changed bool) {
	entries, err := os.ReadDir(m.config.Dir)
	now := time.Now()
	if err != nil {
		// A directory that cannot be read tells nothing; it is not empty.
		m.all(model.Unreachable, err.Error(), now)
		return false
	}
	changed = !m.sent
	present := map[string]bool{}
	for _, e := range entries {
		if !isManifest(e.Name()) {
			continue
		}
		stat, err := os.Stat(filepath.Join(m.config.Dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) || err == nil && stat.IsDir() {
			continue
		}
		present[e.Name()] = true
		f := m.files[e.Name()]
		if f != nil && err == nil && sameFile(f.stat, stat) && !slices.Contains(touched, e.Name()) {
			continue
		}
		if f == nil {
			f = &manifestFile{}
			m.files[e.Name()] = f
		}
		if m.readFile(e.Name(), f, stat, err) {
			changed = true
		}
	}
	for name := range m.files {
		if !present[name] {
			delete(m.files, name)
			changed = true
		}
	}
	m.tell(now)
	return changed
}

// sameFile reports whether a file looks untouched from outside.
func sameFile(a, b fs.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// readFile reads one file and reports whether its rows changed.
func (m *Manifests) readFile(name string, f *manifestFile, stat fs.FileInfo, err error) bool {
	var data []byte
	if err == nil {
		data, err = readRegular(filepath.Join(m.config.Dir, name), stat)
	}
	sum := sha256.Sum256(data)
	if err == nil && f.stat != nil && sum == f.sum {
		f.stat = stat
		return false
	}
	var parsed *manifest
	if err == nil {
		f.stat, f.sum = stat, sum
		parsed, err = parseManifest(name, data, m.convert)
	} else {
		f.stat = nil // try again with the next look
	}
	if err != nil {
		if f.err == nil || f.err.Error() != err.Error() {
			m.config.Logger.Error("manifest cannot be read, its last good objects stay", "file", filepath.Join(m.config.Dir, name), "err", err)
		}
		f.err = err
		m.count(1, 0)
		return false
	}
	f.good, f.err = parsed, nil
	m.count(0, parsed.dropped)
	for _, kind := range parsed.unknown {
		m.warnOnce(kind, "kind is not known and not read", "kind", kind, "file", filepath.Join(m.config.Dir, name))
	}
	return true
}

// readRegular reads a file that is one: opening a pipe would wait for ever.
func readRegular(path string, stat fs.FileInfo) ([]byte, error) {
	if !stat.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("it is larger than %d MiB", maxManifest>>20)
	}
	return data, err
}

// tell brings Health up to date after a look at the directory.
func (m *Manifests) tell(now time.Time) {
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if err := m.files[name].err; err != nil {
			broken = append(broken, name+": "+err.Error())
		}
	}
	for k := range model.Kinds {
		m.heard(k, now, "")
	}
	if broken == nil {
		m.all(model.NoTrouble, "", now)
		return
	}
	m.all(model.Faulty, strings.Join(broken, "; "), now)
}

// send hands over everything as one snapshot for each kind.
func (m *Manifests) send(ctx context.Context, out func(context.Context, model.Batch) error) error {
	now := time.Now()
	for k, rows := range m.merge() {
		b := batchOf(m.config.Source, model.Kind(k), rows)
		b.Epoch, b.Received = m.config.Epoch, now
		if err := out(ctx, b); err != nil {
			return err
		}
	}
	m.sent = true
	return nil
}

// batchOf makes the snapshot of a kind.
func batchOf(source model.ShardKey, kind model.Kind, rows []manifestRow) model.Batch {
	b := model.Batch{Source: source, Kind: kind, SnapshotStart: true, SnapshotEnd: true}
	for _, r := range rows {
		switch r.kind {
		case model.KindService:
			b.Services = append(b.Services, r.service)
		case model.KindEndpointSlice:
			b.Slices = append(b.Slices, r.slice)
		case model.KindPod:
			b.Workloads = append(b.Workloads, r.workload)
		case model.KindNode:
			b.Nodes = append(b.Nodes, r.node)
		case model.KindNamespace:
			b.Namespaces = append(b.Namespaces, r.namespace)
		}
	}
	return b
}

// merge returns the rows of all files by kind, sorted by name. Of two objects of
// one name the later counts: by file name, then by place in the file.
func (m *Manifests) merge() (byKind [model.Kinds][]manifestRow) {
	type key struct {
		kind model.Kind
		name model.NamespacedName
	}
	from := map[key]string{}
	last := map[key]manifestRow{}
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		f := m.files[name]
		if f.good == nil {
			continue
		}
		for _, r := range f.good.rows {
			k, at := key{r.kind, r.name}, fmt.Sprintf("%s document %d", name, r.document)
			if was, twice := from[k]; twice {
				m.warnOnce(fmt.Sprint(k, was, at), "object is given twice, the later one counts",
					"kind", r.kind.String(), "object", r.name.String(), "ignored", was, "used", at)
			}
			from[k], last[k] = at, r
		}
	}
	for k, r := range last {
		byKind[k.kind] = append(byKind[k.kind], r)
	}
	for k := range byKind {
		slices.SortFunc(byKind[k], func(a, b manifestRow) int { return a.name.Compare(b.name) })
	}
	return byKind
}

// warnOnce logs a warning that would otherwise come with each change.
func (m *Manifests) warnOnce(key, text string, args ...any) {
	if m.warned[key] || len(m.warned) >= maxWarned {
		return
	}
	m.warned[key] = true
	m.config.Logger.Warn(text, args...)
}
