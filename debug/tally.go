package debug

import (
	"sync"

	"tributary/model"
	"tributary/shards"
)

// Tally is how many services and endpoints there are.
type Tally struct {
	Services  int `json:"services"`
	Endpoints int `json:"endpoints"` // addresses, each once per slice that has it
	Served    int `json:"served"`    // of these, what clients are given
}

func (t *Tally) add(o Tally, sign int) {
	t.Services += sign * o.Services
	t.Endpoints += sign * o.Endpoints
	t.Served += sign * o.Served
}

// tally counts by difference: it looks only at services that changed since it
// was asked last, so that a scrape costs what changed and not what exists.
type tally struct {
	mu       sync.Mutex
	revision uint64
	all      Tally
	clusters map[model.ClusterID]Tally
	services map[model.ServiceKey][]clusterTally // sorted by cluster
}

type clusterTally struct {
	cluster model.ClusterID
	Tally
}

func newTally() *tally {
	t := &tally{}
	t.reset()
	return t
}

func (t *tally) reset() {
	t.revision, t.all = 0, Tally{}
	t.clusters = map[model.ClusterID]Tally{}
	t.services = map[model.ServiceKey][]clusterTally{}
}

// count returns the totals of a snapshot. One that is older than what was
// counted already gets the newer totals.
func (t *tally) count(snap *shards.Snapshot) Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.update(snap)
	return t.all
}

// cluster returns the totals of one cluster, as of the last count.
func (t *tally) cluster(id model.ClusterID) Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clusters[id]
}

func (t *tally) update(snap *shards.Snapshot) {
	if snap.Revision <= t.revision {
		return
	}
	changed := snap.Since(t.revision)
	if t.revision < snap.Floor { // removals are forgotten: start again
		t.reset()
		changed = snap.Services()
	}
	for svc := range changed {
		t.apply(t.services[svc.Key], -1)
		delete(t.services, svc.Key)
		if svc.Definition == nil {
			continue
		}
		rows := perCluster(svc)
		t.services[svc.Key] = rows
		t.apply(rows, 1)
	}
	t.revision = snap.Revision
	t.all.Services = len(t.services)
}

func (t *tally) apply(rows []clusterTally, sign int) {
	for _, r := range rows {
		c := t.clusters[r.cluster]
		c.add(r.Tally, sign)
		if c == (Tally{}) {
			delete(t.clusters, r.cluster)
		} else {
			t.clusters[r.cluster] = c
		}
		t.all.Endpoints += sign * r.Endpoints
		t.all.Served += sign * r.Served
	}
}
