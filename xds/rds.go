package xds

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"tributary/model"
	"tributary/shards"
)

// renderProxyRoutes renders the routes of the outbound HTTP listener: a virtual
// host for each HTTP port of each service. Its first one has the host's bare name.
func renderProxyRoutes(v *view) (*Resource, error) {
	routes := &routev3.RouteConfiguration{Name: proxyName}
	var last *shards.Service // whose first HTTP port was seen
	d := newDomains(v, 0)
	for s, p := range v.ports(0) {
		if !routed(p) {
			continue
		}
		port := portSuffix(p)
		forms := []string{"", port}
		if s == last {
			forms = forms[1:]
		}
		last = s
		if names := d.of(s, forms); len(names) > 0 {
			routes.VirtualHosts = append(routes.VirtualHosts, virtualHost(s, p, names))
		}
	}
	return encode(RouteType, proxyName, routes)
}

// renderPortRoutes renders the routes of a port as Istio's sidecars ask for them:
// a virtual host for each service that speaks HTTP on it. They are also found by
// the addresses of the service in the client's cluster: those of another cluster
// may be somebody else's here (I:1E). A port that no service has has no virtual
// hosts; the client, who has a listener for it, then need not wait for an answer.
func renderPortRoutes(v *view, name string, number uint16) (*Resource, error) {
	routes := &routev3.RouteConfiguration{Name: name}
	d := newDomains(v, number)
	for s, p := range v.ports(number) {
		if !routed(p) {
			continue
		}
		port := portSuffix(p)
		names := d.of(s, []string{"", port})
		for _, c := range s.Definition.VIPs {
			if c.Cluster == v.node.Cluster {
				names = d.addresses(names, c.VIPs, port)
			}
		}
		if len(names) > 0 {
			routes.VirtualHosts = append(routes.VirtualHosts, virtualHost(s, p, names))
		}
	}
	return encode(RouteType, name, routes)
}

// routed reports whether requests for a port are routed by their Host: what
// nobody said anything of may be HTTP.
func routed(p model.Port) bool { return p.Protocol.IsHTTP() || p.Protocol == model.Unknown }

func portSuffix(p model.Port) string { return ":" + strconv.Itoa(int(p.Number)) }

func virtualHost(s *shards.Service, p model.Port, names []string) *routev3.VirtualHost {
	return &routev3.VirtualHost{
		Name:    s.Key.Host + portSuffix(p),
		Domains: names,
		Routes: []*routev3.Route{{
			Name:  "default",
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: clusterName(p.Number, "", s.Key.Host)},
				Timeout:          durationpb.New(0),
			}},
		}},
	}
}

// domains gives out the domains of one route configuration. They must be unique,
// whatever their case, or Envoy refuses all of them: a short name that two
// services could mean goes to the first in order of hosts, and a name that is
// some service's full host goes to that one.
type domains struct {
	v     *view
	full  map[string]string   // the host that a full name leads to, by lower case
	taken map[string]struct{} // lower case
}

// newDomains looks at the services that have a port of that number; 0 is any.
func newDomains(v *view, number uint16) *domains {
	d := &domains{v, map[string]string{}, map[string]struct{}{}}
	for s := range v.ports(number) {
		d.full[strings.ToLower(s.Key.Host)] = s.Key.Host
	}
	for s := range v.ports(number) {
		for _, a := range v.aliases(s) {
			if name := strings.ToLower(a.Key.Host); d.full[name] == "" {
				d.full[name] = s.Key.Host
			}
		}
	}
	return d
}

// of returns the domains of a service and its aliases, each in the given forms.
func (d *domains) of(s *shards.Service, forms []string) (names []string) {
	names = d.names(names, s, s.Key, forms)
	for _, a := range d.v.aliases(s) {
		names = d.names(names, s, a.Key, forms)
	}
	return names
}

// names appends the names that clients have for key, and that lead to s.
func (d *domains) names(names []string, s *shards.Service, key model.ServiceKey, forms []string) []string {
	for _, name := range hostNames(key, d.v.node.Namespace, d.v.node.Domain) {
		for _, form := range forms {
			names = d.take(names, s.Key.Host, name, form)
		}
	}
	return names
}

// addresses appends addresses of a service.
func (d *domains) addresses(names []string, list []model.Addr, port string) []string {
	for _, a := range list {
		text := a.String()
		if !a.Is4() {
			text = "[" + text + "]"
		}
		for _, form := range []string{"", port} {
			names = d.take(names, text, text, form)
		}
	}
	return names
}

// take appends a name, if it may be had for a host.
func (d *domains) take(names []string, host, name, form string) []string {
	whole := strings.ToLower(name + form)
	for _, key := range []string{strings.ToLower(name), whole} {
		if of, is := d.full[key]; is && of != host {
			return names
		}
	}
	if _, is := d.taken[whole]; is || !validDomain(name) {
		return names
	}
	d.taken[whole] = struct{}{}
	return append(names, name+form)
}

// validDomain reports whether Envoy can take a name as a domain; one that it
// cannot would cost all others their routes.
func validDomain(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// hostNames returns the names under which clients of a namespace reach a
// service: its host, and for a host of the client's cluster domain the short
// forms that a resolver would expand.
func hostNames(key model.ServiceKey, namespace, domain string) []string {
	names := []string{key.Host}
	short, ok := strings.CutSuffix(key.Host, ".svc."+domain)
	if !ok {
		return names
	}
	names = append(names, short+".svc", short)
	if name, ok := strings.CutSuffix(short, "."+namespace); ok && key.Namespace == namespace {
		names = append(names, name)
	}
	return names
}
