package xds

import (
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"tributary/model"
	"tributary/shards"
)

// renderProxyRoutes renders the routes of the outbound HTTP listener for
// clients of one namespace: a virtual host for each HTTP port of each service.
// Domains must be unique, whatever their case, or Envoy refuses all of them: a
// short name that two services could mean goes to the first in order of hosts,
// and a name that is some service's full host goes to that one.
func renderProxyRoutes(namespace, domain string, ports iter.Seq2[*shards.Service, model.Port]) (*Resource, error) {
	routes := &routev3.RouteConfiguration{Name: proxyName}
	full := map[string]struct{}{}
	for s := range ports {
		full[strings.ToLower(s.Key.Host)] = struct{}{}
	}
	taken := map[string]struct{}{}
	take := func(domains []string, host, name, port string) []string {
		key, whole := strings.ToLower(name), strings.ToLower(name+port)
		if _, is := full[key]; is && name != host {
			return domains
		}
		if _, is := full[whole]; is && name+port != host {
			return domains
		}
		if _, is := taken[whole]; is || !validDomain(name) {
			return domains
		}
		taken[whole] = struct{}{}
		return append(domains, name+port)
	}
	var last *shards.Service // whose first HTTP port was seen
	for s, p := range ports {
		if !p.Protocol.IsHTTP() && p.Protocol != model.Unknown {
			continue
		}
		host, port := s.Key.Host, ":"+strconv.Itoa(int(p.Number))
		var domains []string
		for _, name := range hostNames(s.Key, namespace, domain) {
			if s != last {
				domains = take(domains, host, name, "")
			}
			domains = take(domains, host, name, port)
		}
		last = s
		if len(domains) == 0 {
			continue
		}
		routes.VirtualHosts = append(routes.VirtualHosts, &routev3.VirtualHost{
			Name:    host + port,
			Domains: domains,
			Routes: []*routev3.Route{{
				Name:  "default",
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: clusterName(p.Number, "", host)},
					Timeout:          durationpb.New(0),
				}},
			}},
		})
	}
	return encode(RouteType, proxyName, routes)
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
