package xds

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watch is what one stream knows of one resource type: what the client wants
// and what it was given. It is the protocol's state; session.go feeds it.
//
// The client's subscriptions are names, or everything (wildcard). For a name the
// version that was last given is kept; for everything only the revision up to
// which the client was told, which is eight bytes instead of a map.
type watch struct {
	url      string
	isDelta  bool
	wildcard bool
	legacy   bool                // wildcard by asking for no names
	names    map[string]uint64   // explicit subscriptions: hash last given
	owed     map[string]struct{} // to be answered even if unchanged; nil if none
	digest   uint64              // of the names of the last state-of-the-world request
	told     bool                // there was a response or nothing to say: cursor counts
	cursor   uint64              // revision up to which the client was told
	full     bool                // everything is still to be compared
	known    map[string]uint64   // before full was done: what the client says it has
	answer   bool                // the next response is due even if it is empty
	refused  []string            // removals that were refused: sent with the next change
	leaving  map[string]struct{} // gone, and not told yet: removals go last
	due      []string            // scratch of take

	// What was refused (refusal.go).
	groups    [][]string              // of refused responses: each is tried apart from the others
	condemned map[string]condemnation // refused alone: not sent again as they are
	good      []*Resource             // accepted last, where a response is all there is
	accepted  string                  // version of good; "" if nothing was accepted

	response *response // sent and neither acknowledged nor refused
	acked    string    // nonce of the last acknowledged response
	shown    uint64    // revision of the snapshot that the last acknowledged response showed
	sent     string    // nonce of the last response
	version  string    // of the last response
	failure  string    // message of the last refusal; "" after an acknowledgement
}

// These stand for the hash of a resource: it is not there and the client was told
// so, and the client may have any version or none. No resource has them.
const (
	absent = 1
	unsure = 2
)

// response is one message for a stream, before it is encoded.
type response struct {
	url       string
	nonce     string
	version   string
	resources []*Resource
	removed   []string  // delta only
	touched   []string  // CDS only: the clusters that are new or changed to the client
	whole     bool      // what it leaves out is gone
	trial     bool      // a part of what was refused, sent apart
	parted    bool      // the rest comes later, since together it is too large
	arrived   time.Time // of the oldest event that it tells of; zero if that is not known
	since     uint64    // revision that the client was told before; 0 if none
}

func newWatch(url string, delta bool) *watch {
	return &watch{url: url, isDelta: delta, names: map[string]uint64{}}
}

// owe makes a name due, whether the client has it or not.
func (w *watch) owe(name string) {
	if _, ok := w.names[name]; ok {
		w.names[name] = 0
	}
	if w.owed == nil {
		w.owed = map[string]struct{}{}
	}
	w.owed[name] = struct{}{}
}

// wholeState types have all their resources in every response of the
// state-of-the-world variant; in the others a response may be a part.
func wholeState(url string) bool { return url == ClusterType || url == ListenerType }

// subscribe adds names; each is answered, even if the client has it. known is
// what the client says it has: nil, but for its first request.
func (w *watch) subscribe(names []string, known map[string]string) {
	for _, n := range names {
		if n == "*" {
			w.wildcard = false // asked again, it is answered again
			w.startWildcard(known)
			continue
		}
		w.names[n] = 0
		w.owe(n)
		if version, has := known[n]; has {
			w.names[n] = parseVersion(version)
		}
	}
}

func (w *watch) startWildcard(known map[string]string) {
	if w.wildcard {
		return
	}
	w.wildcard, w.full, w.known, w.answer = true, true, nil, len(known) == 0
	if len(known) > 0 {
		w.known = make(map[string]uint64, len(known))
		for n, version := range known {
			w.known[n] = parseVersion(version)
		}
	}
}

func (w *watch) endWildcard() { w.wildcard, w.legacy, w.full, w.known = false, false, false, nil }

// unsubscribe removes names. A name that is still covered by the wildcard must
// be answered, since the client has forgotten it.
func (w *watch) unsubscribe(names []string) {
	for _, n := range names {
		if n == "*" {
			w.endWildcard()
			continue
		}
		if _, ok := w.names[n]; !ok {
			continue
		}
		delete(w.names, n)
		if w.wildcard {
			w.owe(n)
		} else {
			delete(w.owed, n)
		}
	}
}

// replaceNames makes names the whole subscription, as in the
// state-of-the-world variant, and reports whether one was added.
func (w *watch) replaceNames(names []string) (added bool) {
	want := make(map[string]uint64, len(names))
	wildcard := false
	for _, n := range names {
		if n == "*" {
			wildcard = true
			continue
		}
		hash, had := w.names[n]
		if !had {
			w.owe(n)
			added = true
		}
		want[n] = hash
	}
	w.names = want
	for n := range w.owed {
		if _, ok := want[n]; !ok {
			delete(w.owed, n)
		}
	}
	if wildcard {
		w.startWildcard(nil)
	} else {
		w.endWildcard()
	}
	return added
}

// idle reports whether nothing can be due, as after most acknowledgements: it
// saves looking.
func (w *watch) idle(v *view) bool {
	return w.told && w.cursor == v.snapshot.Revision && len(w.owed) == 0 && !w.full && !w.answer && len(w.groups) == 0
}

// delta returns the next response of the delta variant; nil if nothing is due.
func (w *watch) delta(v *view) (*response, error) {
	if w.idle(v) {
		return nil, nil
	}
	if w.forgotten(v) && w.wildcard {
		// What was removed is no longer known. The client knows what it has and
		// says so when it comes back.
		return nil, status.Errorf(codes.Unavailable, "the client is behind by more removed %s resources than are remembered; it must reconnect", ShortType(w.url))
	}
	if r := w.trial(v); r != nil {
		return r, nil
	}
	due := w.take(v)
	if w.nothing(v, due) {
		return nil, nil
	}
	r := &response{url: w.url}
	for _, n := range due {
		if _, explicit := w.names[n]; w.full && !explicit {
			w.doubt(n)
			continue
		}
		w.put(r, v, n)
	}
	if w.full {
		w.compareAll(r, v)
	}
	if w.url == ClusterType {
		r.touched = resourceNames(r.resources)
	}
	return w.finish(r, v), nil
}

// nothing reports whether no response can come of what is due, as for most types
// after most changes; the client is up to date then. No response is made for that.
func (w *watch) nothing(v *view, due []string) bool {
	if len(due) > 0 || w.full || w.answer {
		return false
	}
	w.told, w.cursor = true, v.snapshot.Revision
	return true
}

// doubt has compareAll answer a name whatever the client says it has.
func (w *watch) doubt(name string) {
	if w.known == nil {
		w.known = map[string]uint64{}
	}
	w.known[name] = 0
}

func resourceNames(resources []*Resource) []string {
	names := make([]string, len(resources))
	for i, res := range resources {
		names[i] = res.Name
	}
	return names
}

// forgotten reports whether removals since the cursor are no longer known.
func (w *watch) forgotten(v *view) bool { return w.told && v.snapshot.Floor > w.cursor }

// take returns the names that are due: owed ones, and subscribed ones that may
// have changed, sorted, each once. The list is good until the next call.
func (w *watch) take(v *view) []string {
	due := w.due[:0]
	for n := range w.owed {
		due = append(due, n)
	}
	w.owed = nil
	switch {
	case w.forgotten(v) || w.full:
		w.full = w.wildcard
		for n := range w.names {
			due = append(due, n)
		}
	case w.told && v.byTarget(w.url):
		if v.snapshot.DefinitionRevision > w.cursor {
			for n := range w.names {
				due = append(due, n)
			}
		}
	case w.told && v.snapshot.Revision > w.cursor: // before that, all names are owed
		for _, n := range v.changed(w.url, w.cursor) {
			if _, ok := w.names[n]; ok || w.wildcard {
				due = append(due, n)
			}
		}
	}
	if len(due) > 0 && len(w.refused) > 0 {
		due = append(due, w.refused...)
		w.refused = nil
	}
	slices.Sort(due)
	due = slices.Compact(due)
	if w.due = due; cap(due) > 1024 {
		w.due = nil // a stream does not keep what one large answer took
	}
	return due
}

// put adds the resource of that name, or its absence, to r unless the client
// has been given just that. What the client has and is gone is not told here: it
// is left to leave.
func (w *watch) put(r *response, v *view, name string) { w.putOrDepart(r, v, name, true) }

func (w *watch) putOrDepart(r *response, v *view, name string, later bool) {
	last, explicit := w.names[name]
	if !explicit && !w.wildcard {
		return
	}
	res := v.get(w.url, name)
	hash := uint64(absent)
	if res != nil {
		if w.barred(v, res) {
			return
		}
		hash = res.Hash
	}
	had := !explicit || last != 0 && last != absent
	switch {
	case explicit && last == hash:
		return
	case later && had && (res == nil && w.isDelta || res != nil && res.nobody):
		w.depart(name)
		return
	case res == nil:
		r.removed = append(r.removed, name)
	default:
		r.resources = append(r.resources, res)
	}
	if explicit {
		w.names[name] = hash
	}
}

// depart has leave tell that a name is gone.
func (w *watch) depart(name string) {
	if w.leaving == nil {
		w.leaving = map[string]struct{}{}
	}
	w.leaving[name] = struct{}{}
}

// leave returns the response that tells what is gone; nil if nothing is. It comes
// after all that is new, of this type and of those that may refer to it.
func (w *watch) leave(v *view) *response {
	names := slices.Sorted(maps.Keys(w.leaving))
	w.leaving = nil
	r := &response{url: w.url}
	if w.wholly() {
		w.whole(r, v)
		if sumVersion(r.resources) == w.accepted {
			return nil
		}
		w.answer = true
		return w.finish(r, v)
	}
	for _, n := range names {
		last, explicit := w.names[n]
		if !explicit && !w.wildcard {
			continue
		}
		hash := uint64(absent)
		switch res := v.get(w.url, n); {
		case res == nil && (!explicit || last != absent):
			r.removed = append(r.removed, n)
		case res != nil && res.nobody && (!explicit || last != res.Hash) && !w.barred(v, res):
			r.resources, hash = append(r.resources, res), res.Hash
		default:
			continue // it is back, or was told meanwhile
		}
		if explicit {
			w.names[n] = hash
		}
	}
	return w.finish(r, v)
}

// compareAll adds everything that the client does not have, and the removal of
// what it has and should not.
func (w *watch) compareAll(r *response, v *view) {
	for res := range v.all(w.url) {
		if _, explicit := w.names[res.Name]; explicit {
			continue // take has it
		}
		hash, has := w.known[res.Name]
		delete(w.known, res.Name)
		if (!has || hash != res.Hash) && !w.barred(v, res) {
			r.resources = append(r.resources, res)
		}
	}
	gone := slices.Sorted(maps.Keys(w.known))
	w.full, w.known = false, nil
	for _, n := range gone {
		if _, explicit := w.names[n]; !explicit {
			w.put(r, v, n)
		}
	}
}

// wholly reports whether each response has all there is, so that what it leaves
// out is gone.
func (w *watch) wholly() bool { return !w.isDelta && (wholeState(w.url) || w.wildcard) }

// sotw returns the next response of the state-of-the-world variant; nil if
// nothing is due.
func (w *watch) sotw(v *view) *response {
	if w.idle(v) {
		return nil
	}
	if w.wholly() {
		return w.wholeDue(v)
	}
	if r := w.trial(v); r != nil {
		return r
	}
	due := w.take(v)
	if w.nothing(v, due) {
		return nil
	}
	r := &response{url: w.url}
	for _, n := range due {
		w.put(r, v, n)
	}
	// An absent resource is told by silence in this variant.
	w.answer = w.answer || len(r.removed) > 0
	r.removed = nil
	return w.finish(r, v)
}

// wholeDue returns the next response that has everything; nil if the client has
// accepted just that.
func (w *watch) wholeDue(v *view) *response {
	due, all := w.take(v), w.full
	for {
		group := w.nextGroup()
		if len(group) == 0 && w.nothing(v, due) {
			return nil
		}
		r := &response{url: w.url, trial: len(group) > 0}
		w.departures(v, due, all)
		w.whole(r, v)
		if !w.answer && sumVersion(r.resources) == w.accepted {
			due, all = nil, false // what changed is nothing that the client sees
			continue
		}
		w.answer = true
		if w.url != ClusterType {
			return w.finish(r, v)
		}
		if all {
			r.touched = resourceNames(r.resources)
		} else {
			for _, n := range append(group, due...) {
				if v.get(w.url, n) != nil {
					r.touched = append(r.touched, n)
				}
			}
		}
		return w.finish(r, v)
	}
}

// departures finds what the client has, of the names that are due or of all, and
// is gone: it stays in the responses until leave.
func (w *watch) departures(v *view, due []string, all bool) {
	if w.accepted == "" {
		return
	}
	gone := map[string]struct{}{}
	for _, n := range due {
		if v.get(w.url, n) == nil {
			gone[n] = struct{}{}
		}
	}
	if len(gone) == 0 && !all {
		return
	}
	for _, res := range w.good {
		_, is := gone[res.Name]
		if (is || all && v.get(w.url, res.Name) == nil) && w.wants(res.Name) {
			w.depart(res.Name)
		}
	}
}

func (w *watch) wants(name string) bool {
	_, explicit := w.names[name]
	return explicit || w.wildcard
}

// whole adds every resource that the client wants. In place of what it refused,
// or may refuse, stands what it accepted before.
func (w *watch) whole(r *response, v *view) {
	w.full, r.whole = false, true
	aside := w.aside()
	var before map[string]*Resource // of good, made when it is asked for
	older := func(name string) {
		if before == nil {
			before = make(map[string]*Resource, len(w.good))
			for _, res := range w.good {
				before[res.Name] = res
			}
		}
		if res := before[name]; res != nil {
			r.resources = append(r.resources, res)
		}
	}
	add := func(res *Resource) {
		if _, held := aside[res.Name]; held || w.barred(v, res) {
			older(res.Name)
			return
		}
		r.resources = append(r.resources, res)
	}
	if w.wildcard {
		for res := range v.all(w.url) {
			add(res)
		}
	} else {
		for n := range w.names {
			if res := v.get(w.url, n); res != nil {
				add(res)
				w.names[n] = res.Hash
			}
		}
	}
	for n := range w.leaving {
		if w.wants(n) && v.get(w.url, n) == nil {
			older(n)
		}
	}
	if !w.wildcard || len(w.leaving) > 0 {
		slices.SortFunc(r.resources, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
	}
}

// finish completes r; nil if it says nothing and none was due.
func (w *watch) finish(r *response, v *view) *response {
	r.since = w.cursor
	w.told, w.cursor = true, v.snapshot.Revision
	if len(r.resources) == 0 && len(r.removed) == 0 && !w.answer {
		return nil
	}
	w.answer = false
	r.version = sumVersion(r.resources)
	return r
}

// sumVersion returns the version of a set of resources: the same for any order,
// and on every replica.
func sumVersion(resources []*Resource) string {
	if len(resources) == 1 {
		return resources[0].version
	}
	var sum uint64
	for _, res := range resources {
		sum += res.Hash
	}
	return formatVersion(sum)
}
