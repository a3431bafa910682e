package xds

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"tributary/model"
)

// client follows the protocol as Envoy does, one stream after another, with
// requests and responses that take their time.
type client struct {
	node       *corev3.Node
	delta      bool
	everything bool // subscribes to all clusters, and to the endpoints of those it has
	session    *session
	requests   []request   // on their way to the server
	responses  []*response // on their way to the client

	names map[string]map[string]bool   // by type: explicit subscriptions
	have  map[string]map[string]uint64 // by type: hash of each resource
	nonce map[string]string
	body  map[uint64][]byte

	hates   uint64          // refuses each version that it divides; 0: none
	picky   bool            // of refused endpoints it takes the good ones, as Envoy does
	refused map[uint64]bool // versions that were in a response that it refused
}

// hated reports whether the client never accepts a resource.
func (c *client) hated(url string, hash uint64) bool {
	return c.hates != 0 && hash%c.hates == 0 && (url == ClusterType || url == EndpointType)
}

var clientTypes = []string{ClusterType, EndpointType, ListenerType, RouteType}

func (c *client) connect(limits *Limits) {
	c.session = newSession(c.delta, limits)
	c.requests, c.responses, c.nonce = nil, nil, map[string]string{}
	for _, url := range clientTypes {
		r := request{node: c.node, url: url}
		if c.delta {
			r.initial = map[string]string{}
			for n, hash := range c.have[url] {
				r.initial[n] = formatVersion(hash)
			}
			r.subscribe = slices.Sorted(maps.Keys(c.names[url]))
		} else {
			r.names = slices.Sorted(maps.Keys(c.names[url]))
		}
		c.requests = append(c.requests, r)
	}
}

// subscribe changes the subscriptions of a type; ack is the nonce of the response
// that the request settles, if any.
func (c *client) subscribe(url string, add, drop []string, ack, failure string) {
	for _, n := range add {
		c.names[url][n] = true
	}
	for _, n := range drop {
		delete(c.names[url], n)
		delete(c.have[url], n)
	}
	r := request{url: url, nonce: ack, refused: failure != "", failure: failure}
	if c.delta {
		r.subscribe, r.unsubscribe = add, drop
	} else {
		r.names = slices.Sorted(maps.Keys(c.names[url]))
		if r.nonce == "" {
			r.nonce = c.nonce[url]
		}
	}
	c.requests = append(c.requests, r)
}

// take applies or refuses one response and answers it.
func (c *client) take(r *response, refuse bool) {
	c.nonce[r.url] = r.nonce
	have, message := c.have[r.url], ""
	if refuse && r.url != ListenerType { // which never changes, so it would not come again
		message = "I do not like it"
	}
	for _, res := range r.resources {
		if c.hated(r.url, res.Hash) {
			message += " " + res.Name[:len(res.Name)-int(res.Hash>>8&1)] // sometimes it says which
		}
	}
	if message != "" {
		for _, res := range r.resources {
			c.refused[res.Hash] = true
			if _, wanted := c.names[r.url][res.Name]; wanted && c.picky && r.url == EndpointType && !c.hated(r.url, res.Hash) {
				have[res.Name], c.body[res.Hash] = res.Hash, res.Body()
			}
		}
		c.subscribe(r.url, nil, nil, r.nonce, message)
		return
	}
	if !c.delta && wholeState(r.url) {
		clear(have)
	}
	for _, res := range r.resources {
		if _, wanted := c.names[r.url][res.Name]; wanted || c.everything && wholeState(r.url) {
			have[res.Name] = res.Hash
			c.body[res.Hash] = res.Body()
		}
	}
	for _, n := range r.removed {
		delete(have, n)
	}
	c.subscribe(r.url, nil, nil, r.nonce, "")
	if r.url == ClusterType && c.everything {
		c.followClusters()
	}
}

// followClusters subscribes to the endpoints of the clusters that are there.
func (c *client) followClusters() {
	var add, drop []string
	for n := range c.have[ClusterType] {
		if !c.names[EndpointType][n] {
			add = append(add, n)
		}
	}
	for n := range c.names[EndpointType] {
		if _, ok := c.have[ClusterType][n]; !ok {
			drop = append(drop, n)
		}
	}
	if len(add)+len(drop) > 0 {
		slices.Sort(add)
		slices.Sort(drop)
		c.subscribe(EndpointType, add, drop, "", "")
	}
}

// TestClientsConverge lets clients of every kind live through random histories
// and then compares what they have with what the registry says, computed the
// slow way.
func TestClientsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := DefaultLimits()
		w := newWorld(rapid.IntRange(0, 4).Draw(t, "tombstones"))
		render := newRenderer(t)
		c := &client{
			delta: rapid.Bool().Draw(t, "delta"), everything: rapid.Bool().Draw(t, "everything"),
			names: map[string]map[string]bool{}, have: map[string]map[string]uint64{}, body: map[uint64][]byte{},
			hates: rapid.SampledFrom([]uint64{0, 2, 3, 7}).Draw(t, "hates"), picky: rapid.Bool().Draw(t, "picky"), refused: map[uint64]bool{},
		}
		if c.delta {
			render.responseBytes = rapid.SampledFrom([]int{0, 1, 600}).Draw(t, "response bytes")
		}
		hosts := []string{"a", "b", "c", "d"}
		var all []string
		for _, h := range hosts {
			all = append(all, clusterName(80, "", h), clusterName(81, "", h))
		}
		for _, url := range clientTypes {
			c.names[url], c.have[url] = map[string]bool{}, map[string]uint64{}
		}
		c.names[RouteType][proxyName], c.names[RouteType]["80"] = true, true
		c.node = rapid.SampledFrom([]*corev3.Node{testNode, testRouter, testMeshNode}).Draw(t, "node")
		last := clusterName(80, "", "last")
		if !c.everything {
			c.names[ListenerType][proxyName] = true
			for _, url := range []string{ClusterType, EndpointType} {
				c.names[url][last] = true
			}
		}
		w.defineHTTP(key("last"), 80)
		w.place(key("last"), "10.0.0.1")
		w.commit()
		c.connect(&limits)

		deliver := func() {
			if len(c.requests) == 0 {
				return
			}
			r := c.requests[0]
			c.requests = c.requests[1:]
			if _, err := c.session.request(r); err != nil {
				t.Fatalf("a request was refused: %v", err)
			}
		}
		pump := func() bool {
			if c.session.node == nil {
				return false
			}
			v := &view{renderer: render, snapshot: w.store.Load(), node: c.session.node}
			r, err := c.session.next(v)
			if err != nil {
				c.connect(&limits) // it was too far behind
				return true
			}
			if r == nil {
				return false
			}
			open := 0
			for _, q := range c.responses {
				if q.url == r.url {
					open++
				}
			}
			if open > 0 {
				t.Fatalf("a second response of type %s before the first was settled", ShortType(r.url))
			}
			bytes := 0
			for _, res := range r.resources {
				bytes += res.bytes()
			}
			if limit := render.responseBytes; limit > 0 && bytes > limit && len(r.resources) > 1 {
				t.Fatalf("%d resources take %d bytes together, more than %d", len(r.resources), bytes, limit)
			}
			seen := map[string]bool{}
			for _, res := range r.resources {
				if seen[res.Name] {
					t.Fatalf("%s is in one response twice", res.Name)
				}
				seen[res.Name] = true
			}
			for _, n := range r.removed {
				if seen[n] {
					t.Fatalf("%s is in one response twice", n)
				}
				seen[n] = true
			}
			c.responses = append(c.responses, r)
			return true
		}
		receive := func(refuse bool) {
			if len(c.responses) > 0 {
				r := c.responses[0]
				c.responses = c.responses[1:]
				c.take(r, refuse)
			}
		}
		change := func() {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				k := model.ServiceKey{Host: rapid.SampledFrom(hosts).Draw(t, "host"), Namespace: rapid.SampledFrom([]string{"default", "other"}).Draw(t, "namespace")}
				ports := rapid.SampledFrom([][]uint16{{80}, {81}, {80, 81}}).Draw(t, "ports")
				switch what := rapid.IntRange(0, 5).Draw(t, "change"); {
				case what == 0:
					if w.services[k] != nil {
						w.remove(k)
					}
				case what == 1:
					protocol := rapid.SampledFrom([]model.Protocol{model.TCP, model.UDP, model.GRPC}).Draw(t, "protocol")
					w.define(k, model.ClientSideLB, model.Port{Name: portName(80), Number: 80, Protocol: protocol}, model.Port{Name: "z", Number: 80, Protocol: model.HTTP})
				case what == 2:
					w.define(k, rapid.SampledFrom([]model.Resolution{model.ClientSideLB, model.Passthrough, model.Alias}).Draw(t, "resolution"), model.Port{Name: portName(80), Number: 80})
					if s := w.services[k].definition; s.Resolution == model.Alias {
						s.Winner.AliasOf = rapid.SampledFrom(hosts).Draw(t, "alias of")
					}
				case what == 3 || w.services[k] == nil:
					w.defineHTTP(k, ports...)
				default:
					var list []string
					for i := range rapid.IntRange(0, 3).Draw(t, "endpoints") {
						list = append(list, fmt.Sprintf("10.%d.0.%d", len(k.Namespace), i+1))
					}
					w.place(k, list...)
				}
				if s := w.services[k]; s != nil && w.changed[k] == model.ServicePush {
					s.definition.Winner.Visibility = rapid.SampledFrom([]model.Visibility{model.Everywhere, model.Everywhere, model.Everywhere,
						model.Nowhere, model.VisibleIn("default"), model.VisibleIn("other")}).Draw(t, "visibility")
				}
			}
			w.commit()
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			case 0, 1, 2:
				change()
			case 3, 4, 5:
				deliver()
			case 6, 7:
				pump()
			case 8, 9:
				receive(false)
			case 10:
				receive(true)
			case 11:
				switch rapid.IntRange(0, 3).Draw(t, "rare") {
				case 0:
					c.connect(&limits)
				default:
					if c.everything {
						break
					}
					url := rapid.SampledFrom([]string{ClusterType, EndpointType}).Draw(t, "type")
					n := rapid.SampledFrom(all).Draw(t, "name")
					if c.names[url][n] {
						c.subscribe(url, nil, []string{n}, "", "")
					} else {
						c.subscribe(url, []string{n}, nil, "", "")
					}
				}
			}
		}
		settle := func() {
			for rounds, quiet := 0, false; !quiet; rounds++ {
				if rounds > 5000 {
					t.Fatal("the stream never comes to rest")
				}
				quiet = !pump()
				for len(c.responses) > 0 {
					receive(false)
					quiet = false
				}
				for len(c.requests) > 0 {
					deliver()
					quiet = false
				}
			}
		}
		settle()
		// What was refused comes with the next change of its type.
		w.defineHTTP(key("last"), 80, 81)
		w.place(key("last"), "10.0.0.2")
		w.commit()
		settle()

		// What it refused alone it does not have; that must be just what it refused.
		without := func(url, name string, hash uint64) bool {
			condemned, ok := c.session.watches[url].condemned[name]
			if ok && condemned.hash == hash && !c.refused[hash] {
				t.Fatalf("%s is kept from a client that never refused it", name)
			}
			if !ok && c.hated(url, hash) {
				t.Fatalf("%s is not condemned, though the client refuses it always", name)
			}
			return ok && condemned.hash == hash
		}
		clusters := w.slowClusters(c.session.node.Class)
		missing := 0
		for n, sc := range clusters {
			want, err := renderCluster(n, sc.state.definition, sc.port, c.session.node.Class.reaches(sc.state.definition, sc.port), c.session.node.TLS)
			if err != nil {
				t.Fatal(err)
			}
			if !c.everything && !c.names[ClusterType][n] {
				continue
			}
			if without(ClusterType, n, want.Hash) {
				if _, ok := c.have[ClusterType][n]; !ok {
					missing++
				}
				continue
			}
			if hash, ok := c.have[ClusterType][n]; !ok || hash != want.Hash {
				t.Fatalf("the client has not the right cluster %s (%v)", n, ok)
			}
		}
		for n := range c.have[ClusterType] {
			if _, ok := clusters[n]; !ok {
				t.Fatalf("the client still has the cluster %s", n)
			}
		}
		if c.everything && len(c.names[EndpointType]) != len(clusters)-missing {
			t.Fatalf("subscribed to the endpoints of %d of %d clusters", len(c.names[EndpointType]), len(clusters)-missing)
		}
		for n := range c.names[EndpointType] {
			hash, ok := c.have[EndpointType][n]
			v := &view{renderer: render, snapshot: w.store.Load(), node: c.session.node}
			if without(EndpointType, n, v.get(EndpointType, n).Hash) {
				continue
			}
			if !ok {
				t.Fatalf("the client waits for the endpoints of %s", n)
			}
			want := clusters[n].assignment(n)
			if got := unmarshalAssignment(t, c.body[hash]); !proto.Equal(got, want) {
				t.Fatalf("endpoints of %s:\n got %v\nwant %v", n, got, want)
			}
		}
		for _, x := range []struct{ url, name string }{{ListenerType, proxyName}, {RouteType, proxyName}, {RouteType, "80"}} {
			v := &view{renderer: newRenderer(t), snapshot: w.store.Load(), node: c.session.node}
			if got, want := c.have[x.url][x.name], v.get(x.url, x.name).Hash; got != want && !without(x.url, x.name, want) {
				t.Fatalf("%s %s: version %x, want %x", ShortType(x.url), x.name, got, want)
			}
		}
	})
}
