package clusters

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary/model"
)

// Status is what is known of one cluster, or of one key of a secret that is
// refused.
type Status struct {
	ID     model.ClusterID `json:"id"`
	Type   string          `json:"type"`             // local, remote or directory
	Secret string          `json:"secret,omitempty"` // "namespace/name"; "" unless from a secret
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

	health model.SourceHealth
	kind   Type
}

// SyncStatus returns the state in Istio's words, as in /debug/clusterz.
func (s *Status) SyncStatus() string {
	switch {
	case s.State == Removed:
		return "closed"
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
		strings.Compare(a.Secret, b.Secret), strings.Compare(a.Dir, b.Dir))
}

// refusedKey reports whether s stands for a claim that was never followed.
func (s *Status) refusedKey() bool {
	return s.Epoch == 0 && (s.State == Invalid || s.State == Conflict)
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
		id     model.ClusterID
		secret string
	}
	running := map[key]bool{}
	for _, c := range m.members {
		s := c.status()
		v.statuses = append(v.statuses, s)
		running[key{s.ID, s.Secret}] = true
	}
	before := map[model.ClusterID][]Status{}
	for _, s := range m.view.Load().statuses {
		if s.refusedKey() {
			before[s.ID] = append(before[s.ID], s)
		}
	}
	for i := range m.refused {
		r := &m.refused[i]
		if r.kind == Remote && running[key{r.id, r.secret}] {
			continue // the row of the cluster tells it
		}
		s := Status{
			ID: r.id, Type: r.kind.String(), kind: r.kind, Secret: r.secret, Dir: r.dir,
			State: r.state, Reason: r.reason, Since: now, Added: now, LastError: r.reason,
		}
		for _, b := range before[s.ID] {
			if b.Secret == s.Secret && b.Dir == s.Dir && b.State == s.State {
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
}

// Waiting is something that readiness waits for.
type Waiting struct {
	Cluster model.ClusterID // "" if it is no single cluster
	What    string
	Since   time.Time
}

// view is what the manager shows of itself; immutable.
type view struct {
	statuses []Status
	lists    []Waiting // lists of clusters that have not been read yet
}

// Ready reports whether this process knows enough to serve: which clusters
// there are, and of each either all that it holds, or that nothing is to be
// expected of it, or that it was waited for long enough. Once ready it stays so.
// waiting tells what is missing, also when it no longer matters.
func (m *Manager) Ready(now time.Time) (ready bool, waiting []Waiting) {
	waiting = missing(m.view.Load(), now, m.options.SyncTimeout)
	if len(waiting) == 0 {
		m.ready.Store(true)
	}
	return m.ready.Load(), waiting
}

// missing lists what readiness has to wait for.
func missing(v *view, now time.Time, patience time.Duration) []Waiting {
	waiting := slices.Clone(v.lists)
	for i := range v.statuses {
		s := &v.statuses[i]
		if s.Known || s.State == Removed || s.State.Refused() || !now.Before(s.Added.Add(patience)) {
			continue
		}
		what := "the cluster is " + s.State.String()
		if s.Reason != "" {
			what += ": " + s.Reason
		}
		waiting = append(waiting, Waiting{s.ID, what, s.Added})
	}
	return waiting
}
