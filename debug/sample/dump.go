package sample

import (
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary/xds"
)

// dump gives the proxies named cart and reviews one resource of each type, where
// the listener is of a snapshot that the proxy was not told of yet. Of the one at the
// edge, which has no types, there is none; and one called heavy has too much.
func (f *Fleet) dump(proxy string, limit int) (*xds.Dump, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if proxy == "heavy" {
		return nil, fmt.Errorf("proxy heavy, %d bytes: %w", limit, xds.ErrTooLarge)
	}
	for _, p := range f.proxies {
		if len(p.Types) == 0 || !strings.Contains(p.ID, "~"+proxy+"~") {
			continue
		}
		d := &xds.Dump{Proxy: p}
		for i, m := range []proto.Message{
			&clusterv3.Cluster{Name: "outbound|80||cart.shop.svc.cluster.local"},
			&endpointv3.ClusterLoadAssignment{ClusterName: "outbound|80||cart.shop.svc.cluster.local"},
			&listenerv3.Listener{Name: "outbound_http_proxy"},
			&routev3.RouteConfiguration{Name: "outbound_http_proxy", VirtualHosts: []*routev3.VirtualHost{{Name: "cart", Domains: []string{"cart"}}}},
		} {
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				return nil, err
			}
			t := p.Types[i]
			told := uint64(1)
			if t.URL == xds.ListenerType {
				told = 3
			}
			d.Types = append(d.Types, xds.TypeDump{URL: t.URL, Version: t.Version, Told: told, Revision: 4, Resources: []xds.DumpedResource{
				{Name: string(m.ProtoReflect().Descriptor().Name()), Version: "1a2b", Body: &anypb.Any{TypeUrl: t.URL, Value: body}}}})
			if t.URL != xds.ListenerType {
				d.Types[i].Revision = told
			}
		}
		return d, nil
	}
	return nil, fmt.Errorf("proxy %q: %w", proxy, xds.ErrNoProxy)
}
