package xds

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// quarantine is what the clients of a class refused, for all streams. A stream
// that refuses a resource alone is never sent it again as it is (refusal.go); here
// is decided when the others of its class are not sent it either:
//
//   - two clients with different ids, both connected, refused it alone, and
//   - no other connected client of the class accepted it.
//
// A single client cannot take a resource from others, be it broken or hostile, and
// neither can several while somebody honest has the resource. One client alone
// needs no verdict of its class: its stream has it, and a new stream of it finds
// out again, by one more refusal.
//
// An entry goes when no client of its class would be sent the same any more, since
// the resource changed, or when the set is full and it is the oldest. What is bad is
// then refused, and found, again.
type quarantine struct {
	limit   int
	metrics *Metrics

	held atomic.Pointer[map[charge]struct{}] // condemned ones; replaced, never changed

	mu      sync.Mutex
	accused map[charge]*accused
	order   []charge // by age
}

// charge is what is refused, and by whom.
type charge struct {
	class Class
	url   string
	name  string
	hash  uint64
}

type accused struct {
	by        []Node // at most two, with different ids
	reason    string
	condemned bool
}

// maxAccused bounds the resources that are accused or condemned.
const maxAccused = 1000

func newQuarantine(limit int, m *Metrics) *quarantine {
	return &quarantine{limit: limit, metrics: m, accused: map[charge]*accused{}}
}

// has reports whether c is condemned for its class. A nil quarantine holds nothing.
func (q *quarantine) has(c charge) bool {
	if q == nil {
		return false
	}
	held := q.held.Load()
	if held == nil {
		return false
	}
	_, ok := (*held)[c]
	return ok
}

// accuse takes in that a client refused c alone. first tells that nobody did
// before; second that this is another client, so that condemn may be called.
func (q *quarantine) accuse(c charge, by *Node, reason string) (first, second bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.accused[c]
	if a == nil {
		for len(q.order) >= q.limit {
			q.remove(q.order[0])
			q.metrics.quarantineFull.Inc()
		}
		q.accused[c] = &accused{by: []Node{*by}, reason: reason}
		q.order = append(q.order, c)
		return true, false
	}
	if a.condemned || slices.ContainsFunc(a.by, func(n Node) bool { return n.ID == by.ID }) {
		return false, false
	}
	if len(a.by) < 2 {
		a.by = append(a.by, *by)
	} else {
		a.by[0] = *by // it could not be condemned with the one who said so before
	}
	return false, true
}

// accusers returns the ids of the clients that accuse c.
func (q *quarantine) accusers(c charge) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ids []string
	if a := q.accused[c]; a != nil {
		for _, n := range a.by {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// condemn keeps c from all clients of its class.
func (q *quarantine) condemn(c charge) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.accused[c]; a != nil && !a.condemned {
		a.condemned = true
		q.publish()
	}
}

// remove forgets c. q.mu is held.
func (q *quarantine) remove(c charge) {
	a := q.accused[c]
	delete(q.accused, c)
	q.order = slices.DeleteFunc(q.order, func(o charge) bool { return o == c })
	if a.condemned {
		q.publish()
	}
}

// publish shows streams what is condemned. q.mu is held.
func (q *quarantine) publish() {
	held := map[charge]struct{}{}
	for c, a := range q.accused {
		if a.condemned {
			held[c] = struct{}{}
		}
	}
	q.metrics.quarantined(q.held.Load(), &held)
	if len(held) == 0 {
		q.held.Store(nil)
		return
	}
	q.held.Store(&held)
}

// sweep forgets what is no longer sent. current returns the hash that a client
// would be sent under a name; 0 if there is nothing.
func (q *quarantine) sweep(current func(n *Node, url, name string) uint64) {
	q.mu.Lock()
	list := maps.Clone(q.accused)
	q.mu.Unlock()
	for c, a := range list {
		q.mu.Lock()
		by := slices.Clone(a.by)
		q.mu.Unlock()
		if slices.ContainsFunc(by, func(n Node) bool { return current(&n, c.url, c.name) == c.hash }) {
			continue
		}
		q.mu.Lock()
		if q.accused[c] == a {
			q.remove(c)
		}
		q.mu.Unlock()
	}
}

// Quarantined is a resource that clients refused.
type Quarantined struct {
	Class     Class
	URL       string
	Name      string
	Version   string
	Reason    string   // what the first client said
	RefusedBy []string // ids of the first clients, at most two
	Everybody bool     // no client of the class is sent it
}

// Quarantined returns what clients refused as it is now, by class, type and name.
func (s *Server) Quarantined() []Quarantined {
	q := s.renderer.quarantine
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]Quarantined, 0, len(q.accused))
	for c, a := range q.accused {
		e := Quarantined{Class: c.class, URL: c.url, Name: c.name, Version: formatVersion(c.hash), Reason: a.reason, Everybody: a.condemned}
		for _, n := range a.by {
			e.RefusedBy = append(e.RefusedBy, n.ID)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Quarantined) int {
		if a.Class != b.Class {
			return int(a.Class) - int(b.Class)
		}
		if a.URL != b.URL {
			return strings.Compare(a.URL, b.URL)
		}
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return strings.Compare(a.Version, b.Version)
	})
	return list
}

// convict takes in that a stream refused a resource alone, with its turn held.
func (s *Server) convict(str *stream, url string, res *Resource, reason string) {
	q, node := s.renderer.quarantine, str.session.node
	c := charge{node.Class, url, res.Name, res.Hash}
	first, second := q.accuse(c, node, reason)
	attrs := []any{"proxy", node.ID, "class", node.Class.String(), "type", ShortType(url), "name", res.Name, "version", res.version, "reason", reason}
	if first && str.complain() {
		s.log.Error("a proxy refuses a resource, which it is not sent again as it is", attrs...)
	}
	if second && s.mayCondemn(c, str) {
		q.condemn(c)
		s.log.Error("two proxies refuse a resource, and no proxy of their class is sent it as it is", attrs...)
	}
}

// mayCondemn reports whether c is still accused by two connected clients, and no
// other connected client of the class has accepted it. It waits for nobody: a
// client that is being sent to has no say. The turn of str is held.
func (s *Server) mayCondemn(c charge, str *stream) bool {
	snapshot := s.source.Released()
	if snapshot == nil {
		return false
	}
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for o := range s.streams {
		if o != str {
			streams = append(streams, o)
		}
	}
	s.mu.Unlock()
	accusers := s.renderer.quarantine.accusers(c)
	another := false
	for _, o := range streams {
		id := o.node()
		if slices.Contains(accusers, id) && id != str.session.node.ID {
			another = true
		}
		if !o.turn.TryLock() {
			continue
		}
		accepted := o.session.accepted(&s.renderer, snapshot, c)
		o.turn.Unlock()
		if accepted {
			return false
		}
	}
	return another
}
