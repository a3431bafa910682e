package xds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary/model"
)

// Proxy is a connected client and what it was given.
type Proxy struct {
	ID           string
	Class        Class
	Cluster      model.ClusterID
	Namespace    string
	IstioVersion string
	UserAgent    string
	Peer         string
	Delta        bool
	Connected    time.Time
	Types        []ProxyType // in the order of the protocol, then by URL
}

// ProxyType is what a proxy was given of one resource type.
type ProxyType struct {
	URL     string
	Names   int  // explicit subscriptions
	All     bool // subscribed to everything
	Sent    string
	Acked   string
	Version string
	Shown   uint64 // revision of the snapshot that the last acknowledged response showed; 0 if there was none
	Failure string // why the client refused the last response
	// Quarantined is how many resources the client refused alone and is not sent
	// again as they are.
	Quarantined int
	SentAt      time.Time
	Changed     time.Time
}

// Synced reports whether the client acknowledged all that it was sent.
func (t ProxyType) Synced() bool { return t.Sent == t.Acked && t.Failure == "" }

// note updates the status after something happened to the watch of a type.
func (str *stream) note(url string) {
	s := str.session
	if s.node == nil {
		return
	}
	str.mu.Lock()
	defer str.mu.Unlock()
	p := &str.status
	if p.ID == "" {
		*p = Proxy{
			ID: s.node.ID, Class: s.node.Class, Cluster: s.node.Cluster, Namespace: s.node.Namespace, IstioVersion: s.node.IstioVersion,
			UserAgent: s.node.UserAgent, Peer: str.peer, Delta: s.delta, Connected: str.start,
		}
	}
	w := s.watches[url]
	if w == nil {
		return
	}
	i := 0
	for i < len(p.Types) && p.Types[i].URL != url {
		i++
	}
	if i == len(p.Types) {
		p.Types = append(p.Types, ProxyType{URL: url})
		slices.SortFunc(p.Types, func(a, b ProxyType) int {
			return cmp.Or(cmp.Compare(rank(a.URL), rank(b.URL)), strings.Compare(a.URL, b.URL))
		})
		i = slices.IndexFunc(p.Types, func(t ProxyType) bool { return t.URL == url })
	}
	now, sentAt := time.Now(), p.Types[i].SentAt
	if w.sent != p.Types[i].Sent {
		sentAt = now
	}
	p.Types[i] = ProxyType{
		URL: url, Names: len(w.names), All: w.wildcard, Sent: w.sent, Acked: w.acked, Version: w.version, Shown: w.shown, Failure: w.failure,
		Quarantined: len(w.condemned), SentAt: sentAt, Changed: now,
	}
}

// node returns the client's id; "" before its first request.
func (str *stream) node() string {
	str.mu.Lock()
	defer str.mu.Unlock()
	return str.status.ID
}

// Proxies returns the connected clients that have said who they are, by id and
// then by the age of their stream.
func (s *Server) Proxies() []Proxy {
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for str := range s.streams {
		streams = append(streams, str)
	}
	s.mu.Unlock()
	var list []Proxy
	for _, str := range streams {
		str.mu.Lock()
		p := str.status
		p.Types = slices.Clone(p.Types)
		str.mu.Unlock()
		if p.ID != "" {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Proxy) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), a.Connected.Compare(b.Connected))
	})
	return list
}

// versions returns of each client the version of Istio that it says it is of.
func (s *Server) versions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.streams))
	for str := range s.streams {
		str.mu.Lock()
		if str.status.ID != "" {
			list = append(list, str.status.IstioVersion)
		}
		str.mu.Unlock()
	}
	return list
}

// refusing returns how many clients refused the last response of a type.
func (s *Server) refusing(url string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for str := range s.streams {
		str.mu.Lock()
		if slices.ContainsFunc(str.status.Types, func(t ProxyType) bool { return t.URL == url && t.Failure != "" }) {
			n++
		}
		str.mu.Unlock()
	}
	return n
}
