package main

import (
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"tributary/aggregate"
	"tributary/clusters/kube"
	"tributary/model"
	"tributary/shards"
	"tributary/xds"
)

// core is what is measured.
type core interface {
	// round takes batches in and publishes what they change.
	round([]model.Batch)
	// wait lets time pass, as the core sees it.
	wait(time.Duration)
	// check returns an error unless as many endpoints of as many slices are in
	// the view, each joined to its pod.
	check(slices, endpoints int) error
}

// whole is the core as the server runs it.
type whole struct {
	aggregator *aggregate.Aggregator
	store      *shards.Store
	now        time.Time

	renderer *xds.Renderer // of what every client is given
	render   bool          // each change goes on up to the bytes of its response
}

func newWhole(config model.ClusterID) *whole {
	c := &whole{
		store: shards.NewStore(shards.DefaultTombstones), now: time.Unix(1_800_000_000, 0),
		renderer: xds.NewRenderer(&corev3.Node{Id: "sidecar~10.0.0.1~app.default~default.svc.cluster.local"}, xds.DefaultCacheBytes,
			func(url, name string, err error) { panic(fmt.Sprintf("rendering %s %s: %v", url, name, err)) }),
	}
	c.aggregator = aggregate.New(config, func(source model.ShardKey) aggregate.Registry {
		return kube.NewRegistry(source.Cluster, kube.Rules{}, c.aggregator.WorkloadEntries)
	})
	return c
}

func (c *whole) wait(d time.Duration) { c.now = c.now.Add(d) }

func (c *whole) round(batches []model.Batch) {
	if d := c.aggregator.Round(c.now, batches); !d.Empty() {
		snapshot := c.store.Apply(d)
		for i := range d.Services {
			if s := &d.Services[i]; c.render && s.Definition != nil {
				for _, p := range s.Definition.Ports {
					c.renderer.Render(snapshot, xds.EndpointType, xds.ClusterName(p.Number, s.Key.Host))
				}
			}
		}
	}
	c.aggregator.Next()
}

func (c *whole) check(slices, endpoints int) error {
	for s := range c.store.Load().Services() {
		for _, shard := range s.Shards {
			for _, slice := range shard.Slices {
				slices--
				endpoints -= len(slice.Endpoints)
				for i := range slice.Endpoints {
					if e := &slice.Endpoints[i]; e.Flags&model.EndpointMissing != 0 || e.Workload == nil || e.Workload.Labels.Empty() {
						return fmt.Errorf("an endpoint of slice %v is not joined to its pod", slice.Object)
					}
				}
			}
		}
	}
	if slices != 0 || endpoints != 0 {
		return fmt.Errorf("slices missing in the view: %d, endpoints: %d", slices, endpoints)
	}
	return nil
}

// rows is the least that any core must hold: the joined rows of slices and
// pods in plain maps, with nothing shared, indexed or published.
type rows struct {
	slices map[object]*model.Slice
	pods   map[object]*model.WorkloadInstance
	ports  map[object]*model.Service
}

type object struct {
	cluster model.ClusterID
	name    model.NamespacedName
}

func newRows() *rows {
	return &rows{map[object]*model.Slice{}, map[object]*model.WorkloadInstance{}, map[object]*model.Service{}}
}

func (c *rows) wait(time.Duration) {}

func (c *rows) round(batches []model.Batch) {
	for i := range batches {
		b := &batches[i]
		at := func(namespace, name string) object {
			return object{b.Source.Cluster, model.NamespacedName{Namespace: namespace, Name: name}}
		}
		for _, s := range b.Services {
			c.ports[at(s.Key.Namespace, s.Name)] = s
		}
		for _, w := range b.Workloads {
			k := at(w.Identity.Namespace, w.Name)
			if p := c.pods[k]; p != nil {
				*p = *w // rows are not published, so they may be written over
			} else {
				c.pods[k] = w
			}
		}
		for _, in := range b.Slices {
			k := at(in.Object.Namespace, in.Object.Name)
			old := c.slices[k]
			s := &model.Slice{Cluster: b.Source.Cluster, Object: in.Object, Ports: in.Ports, Localities: []model.Locality{"/zone-a"}}
			s.Endpoints = make([]model.Endpoint, len(in.Endpoints))
			for j := range in.Endpoints {
				e := &in.Endpoints[j]
				if old != nil && j < len(old.Endpoints) && old.Endpoints[j].Addr == e.Addr {
					s.Endpoints[j] = old.Endpoints[j]
					continue
				}
				pod := at(in.Object.Namespace, e.Pod)
				w := c.pods[pod]
				if w == nil {
					w = &model.WorkloadInstance{}
					c.pods[pod] = w
				}
				s.Endpoints[j] = model.Endpoint{Addr: e.Addr, Workload: w, Flags: e.Conditions}
			}
			c.slices[k] = s
		}
	}
}

func (c *rows) check(slices, endpoints int) error {
	for _, s := range c.slices {
		slices--
		endpoints -= len(s.Endpoints)
	}
	if slices != 0 || endpoints != 0 {
		return fmt.Errorf("slices missing: %d, endpoints: %d", slices, endpoints)
	}
	return nil
}
