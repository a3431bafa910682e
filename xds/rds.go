package xds

import (
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"tributary/model"
)

// renderProxyRoutes renders the routes of the outbound HTTP listener for
// clients of one namespace: a virtual host for each HTTP port of each service.
// Domains must be unique, or Envoy refuses all of them: a short name that two
// services could mean goes to the first in order of hosts, and a name that is
// some service's full host goes to that one.
func renderProxyRoutes(namespace, domain string, services func(yield func(*model.Definition) bool)) (*Resource, error) {
	routes := &routev3.RouteConfiguration{Name: proxyName}
	full := map[string]struct{}{}
	for d := range services {
		full[d.Key.Host] = struct{}{}
	}
	taken := map[string]struct{}{}
	take := func(domains []string, name, host string) []string {
		base, _, _ := strings.Cut(name, ":")
		if _, is := full[base]; is && base != host {
			return domains
		}
		if _, is := taken[name]; is {
			return domains
		}
		taken[name] = struct{}{}
		return append(domains, name)
	}
	for d := range services {
		first := true
		for _, p := range d.Ports {
			if !hasCluster(d, p) || !(p.Protocol.IsHTTP() || p.Protocol == model.Unknown) {
				continue
			}
			number := strconv.Itoa(int(p.Number))
			var domains []string
			for _, name := range hostNames(d, namespace, domain) {
				if first {
					domains = take(domains, name, d.Key.Host)
				}
				domains = take(domains, name+":"+number, d.Key.Host)
			}
			first = false
			if len(domains) == 0 {
				continue
			}
			routes.VirtualHosts = append(routes.VirtualHosts, &routev3.VirtualHost{
				Name:    d.Key.Host + ":" + number,
				Domains: domains,
				Routes: []*routev3.Route{{
					Name:  "default",
					Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{
						ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: clusterName(p.Number, "", d.Key.Host)},
						Timeout:          durationpb.New(0),
					}},
				}},
			})
		}
	}
	return encode(RouteType, proxyName, routes)
}

// hostNames returns the names under which clients of a namespace reach a
// service: its host, and for a host of the client's cluster domain the short
// forms that a resolver would expand.
func hostNames(d *model.Definition, namespace, domain string) []string {
	names := []string{d.Key.Host}
	short, ok := strings.CutSuffix(d.Key.Host, ".svc."+domain)
	if !ok {
		return names
	}
	names = append(names, short+".svc", short)
	if name, ok := strings.CutSuffix(short, "."+namespace); ok && d.Key.Namespace == namespace {
		names = append(names, name)
	}
	return names
}
