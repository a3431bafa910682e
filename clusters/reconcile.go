package clusters

import (
	"context"
	"maps"
	"slices"
	"time"

	"tributary/model"
)

// reconcile looks at everything and does what follows from it: the one place
// where clusters begin, change and end.
func (m *Manager) reconcile(now time.Time) {
	synced, gone := m.inbox.take()
	for _, id := range gone {
		m.forget(id)
	}
	for id, s := range synced {
		if c := m.members[id]; c != nil && s.Source == source(id) {
			c.finish(now, s, m.log)
			if c.drain == nil && !c.leaving && c.served() < 100 {
				m.tellShare(c, 100)
			}
		}
	}
	w := m.wanted()
	granted, refused := w.grant()
	m.refused = refused
	for _, id := range sorted(m.members) {
		c := m.members[id]
		want, ok := granted[id]
		switch {
		case c.leaving:
		case w.removesNow(&c.claim):
			m.remove(now, c, "its secret asks for that with the annotation "+RemoveAnnotation+"="+RemoveNow)
		case ok && !want.succeeds(&c.claim):
			// Whether it is the same cluster nobody knows: nothing of the one may
			// stand for the other.
			m.remove(now, c, "its ID belongs to "+want.owner()+" now")
		case c.drain != nil && ok && want.err == nil:
			m.keep(now, c)
		case c.drain != nil:
			c.lastError = ""
			if ok { // what is refused cannot replace what is known: it goes on leaving
				c.lastError = want.err.Error()
			}
			m.leave(now, c)
		case !ok:
			m.dismiss(now, c)
		}
	}
	rotating := 0
	for _, c := range m.members {
		if c.rotating(now, m.options.SyncTimeout) {
			rotating++
		}
	}
	for _, id := range sorted(granted) {
		c := m.members[id]
		if c == nil {
			c = &cluster{claim: granted[id], life: life{since: now}, added: now, base: m.floor, newest: m.floor}
			c.pulse.begin(now)
			m.members[id] = c
		}
		if c.leaving || c.drain != nil {
			continue // its successor begins when it has gone
		}
		c.claim = granted[id]
		c.queued = false
		if c.settle() {
			rotation := c.complete.Epoch != 0
			if c.queued = rotation && rotating >= maxRotations; !c.queued {
				m.start(now, c)
			}
			if rotation {
				rotating++
			}
		}
		if c.claim.err != nil && len(c.runs) == 0 {
			c.step(now, evRefuse, c.claim.err.Error(), m.log)
		}
		c.observe(now, &m.options.Liveness, m.log)
		m.lose(now, c)
	}
	m.tell(w.lists)
	m.publish(now, w.lists)
}

// maxRotations is how many clusters may read everything anew at once, for their
// credential was replaced or their removal undone: each holds its rows twice
// meanwhile. Those that wait go on with what they have. First reads are not
// bounded, as they hold their rows once, and nothing else is known of them.
const maxRotations = 4

func sorted[V any](byID map[model.ClusterID]V) []model.ClusterID {
	return slices.Sorted(maps.Keys(byID))
}

func source(id model.ClusterID) model.ShardKey {
	return model.ShardKey{Provider: model.Kubernetes, Cluster: id}
}

// start begins a run with the credential that is wanted.
func (m *Manager) start(now time.Time, c *cluster) {
	c.newest++
	ctx, stop := context.WithCancel(m.ctx)
	r := &run{
		spec: Spec{Source: source(c.claim.id), Epoch: c.newest, Config: c.claim.config, Dir: c.claim.dir, Count: m.metrics.event},
		sum:  c.claim.sum, stop: stop, done: make(chan struct{}), began: now,
	}
	c.runs = append(c.runs, r)
	c.step(now, evStart, "", m.log)
	m.log.With(c.claim.origin()...).Debug("cluster started", "epoch", c.newest)
	m.work.Go(func() {
		defer stop()
		r.keep(ctx, &m.options, m.out, m.changed)
	})
}

// remove ends a cluster: its sources are stopped and waited for, and only then
// are its rows taken back, so that nothing can bring them in again.
func (m *Manager) remove(now time.Time, c *cluster, why string) {
	c.leaving = true
	c.step(now, evRemove, why, m.log)
	m.log.With(c.claim.origin()...).Info("cluster removed", "reason", why)
	c.freeze()
	id, runs, said, last := c.claim.id, slices.Clone(c.runs), c.said, c.newest
	if last == c.base { // none was ever started
		delete(m.members, id)
		return
	}
	m.work.Go(func() {
		for _, r := range runs {
			<-r.done
		}
		if said != nil {
			<-said
		}
		err := m.out(m.ctx, model.Batch{Source: source(id), Epoch: last, Removed: true, Received: time.Now()})
		if m.ctx.Err() != nil {
			return // we end, not the cluster
		}
		if err != nil {
			m.log.Error("the rows of a removed cluster could not be taken back", "cluster", id, "epoch", last, "err", err)
		}
		m.inbox.mu.Lock()
		m.inbox.gone = append(m.inbox.gone, id)
		m.inbox.mu.Unlock()
		m.changed()
	})
}

// forget drops a cluster whose removal is done. Its ID may be used again, with
// higher epochs.
func (m *Manager) forget(id model.ClusterID) {
	c := m.members[id]
	if c == nil {
		return
	}
	m.floor = max(m.floor, c.newest)
	delete(m.members, id)
	m.metrics.forget(id)
}

// lose notes, once, that readiness no longer waits for a cluster.
func (m *Manager) lose(now time.Time, c *cluster) {
	if c.timedOut || c.leaving || c.complete.Epoch != 0 || c.life.state.Refused() || now.Before(c.added.Add(m.options.SyncTimeout)) {
		return
	}
	c.timedOut = true
	m.metrics.syncTimeouts.WithLabelValues(string(c.claim.id)).Inc()
	m.log.Warn("cluster has not synced in time, readiness no longer waits for it",
		"cluster", c.claim.id, "state", c.life.state, "reason", c.life.reason, "timeout", m.options.SyncTimeout)
}

// tell logs what is refused and which lists cannot be read: once, and again if
// it changes.
func (m *Manager) tell(lists []list) {
	now := make(map[string]string, len(m.refused))
	for i := range m.refused {
		r := &m.refused[i]
		key := "claim " + r.owner() + r.dir + " " + string(r.id) // of one origin and ID there is one
		now[key] = r.reason + string(r.sum[:])
		if m.told[key] == now[key] {
			continue
		}
		if r.state == Invalid {
			m.metrics.refused.Inc()
			m.log.With(r.origin()...).Error("kubeconfig is refused", "err", r.reason)
		} else {
			m.log.With(r.origin()...).Warn("cluster is ignored", "reason", r.reason)
		}
	}
	for _, l := range lists {
		key := "list " + l.what
		switch {
		case l.err != nil:
			if now[key] = "failing"; m.told[key] == "" {
				m.log.Error("clusters cannot be listed, those known before stay", "list", l.what, "err", l.err)
			}
		case m.told[key] != "":
			m.log.Info("clusters can be listed again", "list", l.what)
		}
	}
	m.told = now
}
