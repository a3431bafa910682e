package xds

import (
	"maps"
	"slices"
	"strings"
)

// watch is what one stream knows of one resource type: what the client wants
// and what it was given. It is the protocol's state; session.go feeds it.
//
// The client's subscriptions are names, or everything (wildcard). For a name the
// version that was last given is kept; for everything only the revision up to
// which the client was told, which is eight bytes instead of a map.
type watch struct {
	url      string
	wildcard bool
	names    map[string]uint64   // explicit subscriptions: hash last given
	owed     map[string]struct{} // to be answered even if unchanged
	cursor   uint64              // revision up to which the client was told
	full     bool                // everything is still to be compared
	known    map[string]uint64   // before full was done: what the client says it has
	answer   bool                // the next response is due even if it is empty
	refused  []string            // of responses that were refused: sent with the next change

	response *response // sent and neither acknowledged nor refused
	acked    string    // nonce of the last acknowledged response
	sent     string    // nonce of the last response
	version  string    // of the last response
	failure  string    // message of the last refusal; "" after an acknowledgement
}

// given marks that a resource is not there for the client, and that it was told.
const given = 1

// response is one message for a stream, before it is encoded.
type response struct {
	url       string
	nonce     string
	version   string
	resources []*Resource
	removed   []string // delta only
	touched   []string // names among the resources that are new to the client
}

func newWatch(url string) *watch {
	return &watch{url: url, names: map[string]uint64{}, owed: map[string]struct{}{}}
}

// owe makes a name due, whether the client has it or not.
func (w *watch) owe(name string) {
	if _, ok := w.names[name]; ok {
		w.names[name] = 0
	}
	w.owed[name] = struct{}{}
}

// wholeState types have all their resources in every response of the
// state-of-the-world variant; in the others a response may be a part.
func wholeState(url string) bool { return url == ClusterType || url == ListenerType }

// subscribe adds names; each is answered, even if the client has it.
func (w *watch) subscribe(names []string) {
	for _, n := range names {
		if n == "*" {
			w.startWildcard(nil)
			continue
		}
		n = strings.Clone(n) // the request's memory is not kept
		w.names[n] = 0
		w.owe(n)
	}
}

func (w *watch) startWildcard(known map[string]uint64) {
	if !w.wildcard {
		w.wildcard, w.full, w.known, w.answer = true, true, known, len(known) == 0
	}
}

// unsubscribe removes names. A name that is still covered by the wildcard must
// be answered, since the client has forgotten it.
func (w *watch) unsubscribe(names []string) {
	for _, n := range names {
		if n == "*" {
			w.wildcard, w.full = false, false
			continue
		}
		if _, ok := w.names[n]; ok {
			delete(w.names, n)
			if w.wildcard {
				w.owe(n)
			}
		}
	}
}

// replaceNames makes names the whole subscription, as in the
// state-of-the-world variant, and reports whether one was added.
func (w *watch) replaceNames(names []string) (added bool) {
	want := make(map[string]uint64, len(names))
	for _, n := range names {
		if n == "*" {
			w.startWildcard(nil)
			continue
		}
		hash, had := w.names[n]
		if !had {
			n = strings.Clone(n)
			w.owe(n)
			added = true
		}
		want[n] = hash
	}
	if w.wildcard && !slices.Contains(names, "*") && len(names) > 0 {
		w.wildcard, w.full = false, false
	}
	w.names = want
	return added
}

// settle takes in the client's verdict on the last response.
func (w *watch) settle(failure string) {
	r := w.response
	w.response = nil
	if failure == "" {
		w.acked, w.failure = r.nonce, ""
		return
	}
	// Nothing of a refused response counts as delivered.
	w.failure = failure
	for _, res := range r.resources {
		if _, ok := w.names[res.Name]; ok {
			w.names[res.Name] = 0
		}
		w.refused = append(w.refused, res.Name)
	}
	w.refused = append(w.refused, r.removed...)
}

// delta returns the next response of the delta variant; nil if nothing is due.
func (w *watch) delta(v *view) *response {
	r := &response{url: w.url}
	due := w.take(v)
	for _, n := range due {
		w.put(r, v, n)
	}
	if w.full {
		w.compareAll(r, v)
	}
	r.touched = resourceNames(r.resources)
	return w.finish(r, v)
}

func resourceNames(resources []*Resource) []string {
	names := make([]string, len(resources))
	for i, res := range resources {
		names[i] = res.Name
	}
	return names
}

// take returns the names that are due: owed ones, and subscribed ones that may
// have changed, sorted, each once.
func (w *watch) take(v *view) []string {
	due := slices.Collect(maps.Keys(w.owed))
	clear(w.owed)
	forget := v.snapshot.Floor > w.cursor && w.cursor > 0
	if forget && w.wildcard {
		// Removals since the cursor are no longer known. Compare everything; what
		// went meanwhile stays with the client until it reconnects.
		w.full = true
	}
	if forget {
		for n := range w.names {
			due = append(due, n)
		}
	} else if v.snapshot.Revision > w.cursor && !w.full {
		for n := range v.changed(w.url, w.cursor) {
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
	return slices.Compact(due)
}

// put adds the resource of that name, or its absence, to r unless the client
// has been given just that.
func (w *watch) put(r *response, v *view, name string) {
	last, explicit := w.names[name]
	if !explicit && !w.wildcard {
		return
	}
	res := v.get(w.url, name)
	switch {
	case res == nil && (!explicit || last != given):
		r.removed = append(r.removed, name)
	case res != nil && (!explicit || last != res.Hash):
		r.resources = append(r.resources, res)
	default:
		return
	}
	if explicit {
		w.names[name] = given
		if res != nil {
			w.names[res.Name] = res.Hash
		}
	}
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
		if !has || hash != res.Hash {
			r.resources = append(r.resources, res)
		}
	}
	for n := range w.known {
		if _, explicit := w.names[n]; !explicit {
			r.removed = append(r.removed, n)
		}
	}
	slices.Sort(r.removed)
	r.removed = slices.Compact(r.removed)
	w.full, w.known = false, nil
}

// sotw returns the next response of the state-of-the-world variant; nil if
// nothing is due.
func (w *watch) sotw(v *view) *response {
	r := &response{url: w.url}
	due := w.take(v)
	switch {
	case wholeState(w.url) || w.wildcard:
		if len(due) > 0 || w.full || w.answer {
			w.answer = true
			all := w.full
			w.whole(r, v)
			r.touched = due
			if all {
				r.touched = resourceNames(r.resources)
			}
		}
	default:
		for _, n := range due {
			w.put(r, v, n)
		}
		// An absent resource is told by silence in this variant.
		w.answer = w.answer || len(r.removed) > 0
		r.removed = nil
	}
	return w.finish(r, v)
}

// whole adds every resource that the client wants.
func (w *watch) whole(r *response, v *view) {
	w.full = false
	if w.wildcard {
		r.resources = slices.AppendSeq(r.resources, v.all(w.url))
		return
	}
	for n := range w.names {
		if res := v.get(w.url, n); res != nil {
			r.resources = append(r.resources, res)
			w.names[n] = res.Hash
		}
	}
	slices.SortFunc(r.resources, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
}

// finish completes r; nil if it says nothing and none was due.
func (w *watch) finish(r *response, v *view) *response {
	w.cursor = v.snapshot.Revision
	if len(r.resources) == 0 && len(r.removed) == 0 && !w.answer {
		return nil
	}
	w.answer = false
	var sum uint64
	for _, res := range r.resources {
		sum += res.Hash // the same for any order, and on every replica
	}
	r.version = formatVersion(sum)
	return r
}
