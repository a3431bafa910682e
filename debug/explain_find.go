package debug

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tributary/model"
	"tributary/shards"
	"tributary/xds"
)

// asked is what somebody wants explained, as it can be typed: a host, its first
// labels or its beginning, with a port or not, the name of a cluster in xDS, or
// an address.
type asked struct {
	host string
	port uint16     // 0: all
	addr model.Addr // if host is one
}

func parseAsked(s string) asked {
	s = strings.TrimSpace(s)
	if port, host, ok := xds.ParseClusterName(s); ok {
		return asked{host: host, port: port}
	}
	var a asked
	if host, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			s, a.port = host, uint16(n)
		}
	}
	a.host = strings.TrimSuffix(s, ".")
	a.addr, _ = model.ParseAddr(strings.Trim(s, "[]"))
	return a
}

// How services were found.
const (
	byHost    = "host"
	byLabels  = "first labels of the host"
	byPrefix  = "beginning of the host"
	byAddress = "address"
	byNothing = "none"
)

// find returns the services that are asked for: those of the host; else those
// whose first labels it is; else the one that begins so; else, of an address,
// those that have it as a virtual or an endpoint's address. Where that is none or
// is not clear it returns what may have been meant.
func find(snap *shards.Snapshot, a asked, namespaces []string) (found []*shards.Service, how string, suggestions []string) {
	in := func(s *shards.Service) bool { return oneOf(namespaces, s.Key.Namespace) }
	for s := range snap.Host(a.host) {
		if in(s) {
			found = append(found, s)
		}
	}
	if lower := strings.ToLower(a.host); len(found) == 0 && lower != a.host {
		a.host = lower // as names of objects are
		return find(snap, a, namespaces)
	}
	if len(found) > 0 {
		return found, byHost, nil
	}
	var begins []*shards.Service
	for s := range snap.Services() {
		switch {
		case !in(s):
		case !a.addr.IsZero():
			if hasAddress(s, a.addr) {
				found = append(found, s)
			}
		case named([]string{a.host}, s.Key.Host):
			found = append(found, s)
		case a.host != "" && strings.HasPrefix(s.Key.Host, a.host):
			begins = append(begins, s)
		}
	}
	switch {
	case len(found) > 0 && !a.addr.IsZero():
		return found, byAddress, nil
	case len(found) > 0:
		return found, byLabels, nil
	case len(begins) == 1:
		return begins, byPrefix, nil
	case len(begins) > 1:
		for _, s := range begins[:min(len(begins), maxSuggestions)] {
			suggestions = append(suggestions, shortName(s))
		}
		return nil, byNothing, suggestions
	}
	return nil, byNothing, similar(snap, a.host, namespaces)
}

func hasAddress(s *shards.Service, addr model.Addr) bool {
	for _, v := range s.Definition.VIPs {
		if slices.Contains(v.VIPs, addr) || slices.Contains(v.External, addr) {
			return true
		}
	}
	return hasEndpoint(s, addr)
}

func hasEndpoint(s *shards.Service, addr model.Addr) bool {
	for i := range s.Shards {
		for _, slice := range s.Shards[i].Slices {
			if slices.ContainsFunc(slice.Endpoints, func(e model.Endpoint) bool { return e.Addr == addr }) {
				return true
			}
		}
	}
	return false
}

// shortName returns the name that people use of a service.
func shortName(s *shards.Service) string {
	if w := s.Definition.Winner; w != nil && w.Registry.Provider == model.Kubernetes {
		return w.Name + "." + s.Key.Namespace
	}
	return s.Key.Host
}

const maxSuggestions = 5

// similar returns the names of services that are most like one, the most
// similar first; none if nothing is.
func similar(snap *shards.Snapshot, host string, namespaces []string) []string {
	if host == "" || len(host) > 253 {
		return nil
	}
	type guess struct {
		name string
		far  int
	}
	most := max(2, len(host)/3)
	var list []guess
	first, rest, _ := strings.Cut(host, ".")
	for s := range snap.Services() {
		short := shortName(s)
		name, _, _ := strings.Cut(short, ".")
		far := most + 1
		for _, candidate := range []string{s.Key.Host, short, name} {
			far = min(far, distance(host, candidate, most))
		}
		if name == first && rest != "" || len(host) >= 3 && strings.Contains(s.Key.Host, host) {
			far = min(far, most) // another namespace, or a part of the name
		}
		if far > most {
			continue
		}
		if !oneOf(namespaces, s.Key.Namespace) {
			far++ // it is in a namespace that was not asked for
		}
		list = append(list, guess{short, far})
	}
	slices.SortStableFunc(list, func(a, b guess) int { return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name)) })
	var names []string
	for _, g := range list {
		if len(names) < maxSuggestions && !slices.Contains(names, g.name) {
			names = append(names, g.name)
		}
	}
	return names
}

// distance returns how many bytes have to be changed, put in, left out or swapped
// with their neighbour to make b of a; more than most, if so many.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			same := last[j-1]
			if a[i-1] != b[j-1] {
				same++
			}
			next[j] = min(same, last[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}

// about is what of a service's endpoints is asked for: an address, with a port or
// not, or the name of a workload; the zero value is all.
type about struct {
	text     string
	addr     model.Addr
	port     uint16
	workload string
}

func parseAbout(s string) about {
	s = strings.TrimSpace(s)
	a := about{text: s}
	if s == "" {
		return a
	}
	if at, err := netip.ParseAddrPort(s); err == nil {
		a.port = at.Port()
		a.addr, _ = model.ParseAddr(at.Addr().String())
		return a
	}
	if addr, ok := model.ParseAddr(strings.Trim(s, "[]")); ok {
		a.addr = addr
		return a
	}
	a.workload = s
	return a
}

func (a *about) all() bool { return a.text == "" }

// is reports whether an endpoint is asked for. ports are its target ports.
func (a *about) is(e *model.Endpoint, ports []Verdict) bool {
	switch {
	case a.all():
		return true
	case a.workload != "":
		return workloadName(e) == a.workload || e.Workload != nil && e.Workload.Identity != nil && e.Workload.Identity.Namespace+"/"+e.Workload.Name == a.workload
	}
	return e.Addr == a.addr && (a.port == 0 || slices.ContainsFunc(ports, func(v Verdict) bool { return v.Target == a.port }))
}
