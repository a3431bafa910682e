package xds

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Errors of Server.Dump.
var (
	ErrNoProxy  = errors.New("no such proxy is connected")
	ErrBusy     = errors.New("the proxy is being sent to all the time; ask again")
	ErrTooLarge = errors.New("what the proxy is given is larger than the limit")
)

// Dump is what one client is given of all that it subscribes to.
type Dump struct {
	Proxy Proxy
	Types []TypeDump // in the order of the protocol
}

// TypeDump is what a client is given of one type.
type TypeDump struct {
	URL     string
	Version string // of the last response
	// Told is the revision up to which the client was told, and Revision that of
	// the snapshot that Resources are rendered from: the one that is released now.
	// Older ones are not kept, so right after a release it may be newer than Told.
	Told, Revision uint64
	Resources      []DumpedResource // by name; none before the first response
}

// DumpedResource is one resource as it is on the wire. It is shared with streams
// and must not be changed.
type DumpedResource struct {
	Name    string
	Version string
	Body    *anypb.Any
}

// subscription is what a stream wants of one type, taken out of its session so
// that rendering does not hold up the stream.
type subscription struct {
	url, version string
	told         uint64
	wildcard     bool
	names        []string // sorted
}

// Dump returns what a client is given, of no more than limit bytes. The client is
// named by its node's id or by the part NAME.NAMESPACE of it, else by a part of
// the id, as in Istio; of several that fit, the one that connected last.
func (s *Server) Dump(proxy string, limit int) (*Dump, error) {
	str, status := s.find(proxy)
	if str == nil {
		return nil, fmt.Errorf("proxy %q: %w", proxy, ErrNoProxy)
	}
	snapshot := s.source.Released()
	if snapshot == nil {
		return &Dump{Proxy: status}, nil
	}
	node, subscriptions, ok := str.subscriptions()
	if !ok {
		return nil, fmt.Errorf("proxy %s: %w", status.ID, ErrBusy)
	}
	d, size := &Dump{Proxy: status}, 0
	v := &view{renderer: &s.renderer, snapshot: snapshot, node: node}
	for _, sub := range subscriptions {
		t := TypeDump{URL: sub.url, Version: sub.version, Told: sub.told, Revision: snapshot.Revision}
		for r := range sub.resources(v) {
			if size += r.bytes(); size > limit {
				return nil, fmt.Errorf("proxy %s, %d bytes: %w", status.ID, limit, ErrTooLarge)
			}
			t.Resources = append(t.Resources, DumpedResource{r.Name, r.version, &anypb.Any{TypeUrl: sub.url, Value: r.Body()}})
		}
		slices.SortFunc(t.Resources, func(a, b DumpedResource) int { return strings.Compare(a.Name, b.Name) })
		d.Types = append(d.Types, t)
	}
	return d, nil
}

// find returns the stream of a client that subscribes to something.
func (s *Server) find(proxy string) (best *stream, status Proxy) {
	s.mu.Lock()
	streams := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	rank := 0
	for _, str := range streams {
		str.mu.Lock()
		p := str.status
		p.Types = slices.Clone(p.Types)
		str.mu.Unlock()
		if r := p.fits(proxy); r > 0 && len(p.Types) > 0 && cmp.Or(cmp.Compare(r, rank), p.Connected.Compare(status.Connected)) > 0 {
			best, status, rank = str, p, r
		}
	}
	return best, status
}

// fits returns how well a name fits a client; 0 if it does not.
func (p *Proxy) fits(name string) int {
	parts := strings.Split(p.ID, "~")
	switch {
	case name == "" || p.ID == "":
		return 0
	case p.ID == name:
		return 3
	case len(parts) == 4 && parts[2] == name:
		return 2
	case strings.Contains(p.ID, name):
		return 1
	}
	return 0
}

// Patience with a stream that is in use when somebody wants a dump of it.
const dumpTries = 100

// subscriptions returns what the stream wants; false if it was in use all the
// time.
func (str *stream) subscriptions() (*Node, []subscription, bool) {
	for range dumpTries {
		if str.turn.TryLock() {
			defer str.turn.Unlock()
			return str.session.node, str.session.subscriptions(), true
		}
		time.Sleep(holderPause)
	}
	return nil, nil, false
}

func (s *session) subscriptions() []subscription {
	var list []subscription
	for _, w := range s.order {
		sub := subscription{url: w.url, version: w.version, told: w.cursor}
		if w.told {
			sub.wildcard, sub.names = w.wildcard, slices.Sorted(maps.Keys(w.names))
		}
		list = append(list, sub)
	}
	return list
}

// resources yields what v has of the subscription, each once.
func (sub *subscription) resources(v *view) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for _, name := range sub.names {
			if r := v.get(sub.url, name); r != nil && !yield(r) {
				return
			}
		}
		if !sub.wildcard {
			return
		}
		for r := range v.all(sub.url) {
			if _, named := slices.BinarySearch(sub.names, r.Name); !named && !yield(r) {
				return
			}
		}
	}
}
