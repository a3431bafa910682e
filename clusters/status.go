package clusters

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary/model"
)

// Status is what is known of one cluster, or of a kubeconfig that is refused.
type Status struct {
	ID     model.ClusterID `json:"id"`               // "" of a file that does not tell whose it is
	Type   string          `json:"type"`             // local, remote or directory
	Secret string          `json:"secret,omitempty"` // "namespace/name"; "" unless from a secret
	File   string          `json:"file,omitempty"`   // of a kubeconfig; "" unless from a file
	Dir    string          `json:"dir,omitempty"`    // of manifests
	State  State           `json:"state"`
	Reason string          `json:"reason,omitempty"`
	Since  time.Time       `json:"since"` // when State began
	Added  time.Time       `json:"added"`
	Epoch  uint64          `json:"epoch"` // of the credential in force; 0 if none was started

	// What the cluster held when it was complete first in this epoch, and how
	// long that took. Known says whether that has happened: unknown is not zero.
	Known        bool          `json:"known"`
	Services     int           `json:"services"`
	Slices       int           `json:"slices"`
	Workloads    int           `json:"workloads"`
	Endpoints    int           `json:"endpoints"`
	SyncDuration time.Duration `json:"syncDuration"`

	LastError string    `json:"lastError,omitempty"`
	LastEvent time.Time `json:"lastEvent"` // of the kind that is silent longest; zero if one never spoke
	TimedOut  bool      `json:"timedOut"`  // readiness no longer waits for it

	// Kinds tells of each kind how it is heard. While a cluster drains, and until
	// a new credential is in force, it is what the last source observed.
	Kinds []KindStatus `json:"kinds,omitempty"`

	// Probe is how its API server answers; nil if it is not asked.
	Probe *ProbeStatus `json:"probe,omitempty"`

	// Removal is set while the cluster is on its way out. Served is which part of
	// its endpoints is served, in percent.
	Removal *Removal `json:"removal,omitempty"`
	Served  uint8    `json:"served"`

	health model.SourceHealth
	kind   Type
}

// Removal is how a cluster leaves. It may be undone until it Ends.
type Removal struct {
	Begins time.Time `json:"begins"` // when the first endpoints leave
	Ends   time.Time `json:"ends"`   // when the last do
}

// ProbeStatus is how an API server answers when it is asked whether it is there.
type ProbeStatus struct {
	Answered time.Time     `json:"answered,omitzero"`
	Took     time.Duration `json:"took"`              // of the newest answer
	Failure  string        `json:"failure,omitempty"` // of the newest probe, if it had no answer
	Failures uint64        `json:"failures"`          // since its source began
}

// KindStatus is how one kind of a cluster is heard.
type KindStatus struct {
	Kind      string    `json:"kind"`
	LastEvent time.Time `json:"lastEvent,omitzero"` // a page, an event or a bookmark; zero if there was none
	Version   string    `json:"version,omitempty"`  // newest resourceVersion heard
	// Trouble is what is wrong now: none, faulty, unreachable or denied.
	Trouble string `json:"trouble"`
	// Remark tells what is missing without being a trouble.
	Remark string `json:"remark,omitempty"`
	// LastError is the last failure, over or not, and LastErrorAt when it was.
	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	Errors      uint64    `json:"errors"`
	Overdue     uint64    `json:"overdue,omitempty"` // of Errors, what was given up because nothing came
	Dropped     uint64    `json:"dropped"`
	LastDropped string    `json:"lastDropped,omitempty"` // the last object of which something could not be used
}

// kindsOf returns what is shown of the kinds of a source, and when the one that
// is silent longest was heard last; zero if one never was.
func kindsOf(h *model.SourceHealth) (kinds []KindStatus, oldest time.Time) {
	oldest = h.Kinds[0].LastEvent
	for k := range model.Kinds {
		row := &h.Kinds[k]
		without := k.Optional() && row.LastEvent.IsZero()
		if without && row.LastError == "" {
			continue // the source has no such kind
		}
		kinds = append(kinds, KindStatus{
			Kind: k.String(), LastEvent: row.LastEvent.UTC(), Version: row.Version, Trouble: row.Trouble.String(),
			Remark: row.Remark, LastError: row.LastError, LastErrorAt: row.LastErrorAt.UTC(), Errors: row.Errors, Overdue: row.Overdue, Dropped: row.Dropped, LastDropped: row.LastDropped,
		})
		if row.LastEvent.Before(oldest) && !without {
			oldest = row.LastEvent
		}
	}
	return kinds, oldest
}

// SyncStatus returns the state in Istio's words, as in /debug/clusterz.
func (s *Status) SyncStatus() string {
	switch {
	case s.State == Removed, s.Removal != nil:
		return "closed" // its watches have ended
	case s.Known:
		return "synced"
	case s.TimedOut, s.State.Refused():
		return "timeout" // nobody waits for it
	}
	return "syncing"
}

func compareStatus(a, b Status) int {
	refused := func(s *Status) int {
		if s.refusedKey() {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(string(a.ID), string(b.ID)), cmp.Compare(refused(&a), refused(&b)),
		strings.Compare(a.Secret, b.Secret), strings.Compare(a.File, b.File), strings.Compare(a.Dir, b.Dir))
}

// refusedKey reports whether s stands for a claim that was never followed.
func (s *Status) refusedKey() bool {
	return s.Epoch == 0 && (s.State == Invalid || s.State == Conflict || s.State == Removed)
}

// List returns every cluster and every refused key of a secret, sorted by ID; a
// cluster comes before the keys that wanted its ID.
func (m *Manager) List() []Status {
	v := m.view.Load()
	return slices.Clone(v.statuses)
}

// publish makes what List and Ready show.
func (m *Manager) publish(now time.Time, lists []list) {
	v := &view{}
	type key struct {
		id           model.ClusterID
		secret, file string
	}
	running := map[key]bool{}
	for _, c := range m.members {
		s := c.status()
		v.statuses = append(v.statuses, s)
		running[key{s.ID, s.Secret, s.File}] = true
	}
	before := map[model.ClusterID][]Status{}
	for _, s := range m.view.Load().statuses {
		if s.refusedKey() {
			before[s.ID] = append(before[s.ID], s)
		}
	}
	for i := range m.refused {
		r := &m.refused[i]
		if r.kind == Remote && running[key{r.id, r.secret, r.file}] {
			continue // the row of the cluster tells it
		}
		s := Status{
			ID: r.id, Type: r.kind.String(), kind: r.kind, Secret: r.secret, File: r.file, Dir: r.dir,
			State: r.state, Reason: r.reason, Since: now, Added: now, LastError: r.reason,
		}
		for _, b := range before[s.ID] {
			if b.Secret == s.Secret && b.File == s.File && b.Dir == s.Dir && b.State == s.State {
				s.Since, s.Added = b.Since, b.Added
			}
		}
		v.statuses = append(v.statuses, s)
	}
	slices.SortFunc(v.statuses, compareStatus)
	for _, l := range lists {
		if l.listed {
			continue
		}
		what := l.what + " cannot be known yet"
		if l.err != nil {
			what += ": " + l.err.Error()
		}
		v.lists = append(v.lists, Waiting{What: what, Since: m.began})
	}
	m.view.Store(v)
	if len(missing(v, now, m.options.SyncTimeout)) == 0 {
		m.becomeReady()
	}
}

// view is what the manager shows of itself; immutable.
type view struct {
	statuses []Status
	lists    []Waiting // lists of clusters that have not been read yet
}
