package xds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary/model"
)

// Holder is a client that subscribes to a resource, and how it stands with it.
type Holder struct {
	Proxy     string // its id
	Connected time.Time
	Name      string // of the resource
	// Shown is the newest revision as of which the client has acknowledged the
	// resource, changed or not; 0 if it never was given it.
	Shown uint64
	// Open tells that a response with the resource is neither acknowledged nor
	// refused yet.
	Open bool
	// Failure is why the client refused the resource, or what came with it.
	Failure string
	// Busy tells that the client is being sent to and nothing is known of what it
	// subscribes to; Name is empty.
	Busy bool
}

// ClusterName returns the name of the cluster of a service port, which is also
// the name of its endpoints: outbound|PORT||HOST.
func ClusterName(port uint16, host string) string { return clusterName(port, "", host) }

// ParseClusterName is the inverse of ClusterName, for a cluster with any subset.
func ParseClusterName(name string) (port uint16, host string, ok bool) {
	port, _, host, ok = parseClusterName(name)
	return port, host, ok
}

// Balances reports whether clients of a class are given the endpoints of a port
// of a service, to balance over.
func (c Class) Balances(d *model.Definition, p model.Port) bool { return c.reaches(d, p) == balanced }

// Patience with streams that are in use when somebody asks for holders.
const (
	holderTries = 5
	holderPause = 2 * time.Millisecond
)

// Holders returns the clients that subscribe to one of these resources of a
// type, by id and then by the age of their stream. It waits for nobody: of a
// client that is being sent to all the time it tells just that.
func (s *Server) Holders(url string, names []string) []Holder {
	s.mu.Lock()
	rest := make([]*stream, 0, len(s.streams))
	for str := range s.streams {
		rest = append(rest, str)
	}
	s.mu.Unlock()
	kept := map[classAndName]string{}
	for _, q := range s.Quarantined() {
		if q.Everybody && q.URL == url {
			kept[classAndName{q.Class, q.Name}] = q.Reason
		}
	}
	var list []Holder
	for try := 0; ; try++ {
		var busy []*stream
		for _, str := range rest {
			if !str.turn.TryLock() {
				busy = append(busy, str)
				continue
			}
			list = str.session.holds(list, url, names, str.start, kept)
			str.turn.Unlock()
		}
		if rest = busy; len(rest) == 0 || try == holderTries {
			break
		}
		time.Sleep(holderPause)
	}
	for _, str := range rest {
		if id := str.node(); id != "" {
			list = append(list, Holder{Proxy: id, Connected: str.start, Busy: true})
		}
	}
	slices.SortFunc(list, func(a, b Holder) int {
		return cmp.Or(strings.Compare(a.Proxy, b.Proxy), a.Connected.Compare(b.Connected), strings.Compare(a.Name, b.Name))
	})
	return list
}

type classAndName struct {
	class Class
	name  string
}

// holds appends those of the names that the client subscribes to. kept is why
// resources are kept from all clients of a class.
func (s *session) holds(list []Holder, url string, names []string, connected time.Time, kept map[classAndName]string) []Holder {
	w := s.watches[url]
	if w == nil {
		return list
	}
	for _, name := range names {
		if _, explicit := w.names[name]; !explicit && !w.wildcard {
			continue
		}
		h := Holder{Proxy: s.node.ID, Connected: connected, Name: name}
		_, owed := w.owed[name]
		_, refused := slices.BinarySearch(w.refused, name)
		_, leaving := w.leaving[name]
		condemned, barred := w.condemned[name]
		switch {
		case barred:
			h.Failure, h.Shown = condemned.reason, w.shown
		case kept[classAndName{s.node.Class, name}] != "":
			h.Failure, h.Shown = "other clients refused it: "+kept[classAndName{s.node.Class, name}], w.shown
		case refused, w.waits(name):
			h.Failure, h.Shown = cmp.Or(w.failure, "a response with it was refused"), w.shown
		case w.response != nil && w.response.has(name):
			h.Open = true
			h.Shown = w.shown
		case leaving:
			h.Shown = w.shown
		case w.told && !owed:
			h.Shown = w.cursor
		}
		list = append(list, h)
	}
	return list
}

// has reports whether r tells of a resource.
func (r *response) has(name string) bool {
	return slices.ContainsFunc(r.resources, func(res *Resource) bool { return res.Name == name }) || slices.Contains(r.removed, name)
}
