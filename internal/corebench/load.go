package main

import (
	"fmt"
	"strings"

	"tributary/model"
)

// rowsPerBatch is what a watch hands over at most.
const rowsPerBatch = 16

// load feeds the snapshots of all clusters and kinds to c. The kinds come in
// turn, a batch each, as they do from watches that start together: most pods
// come after the slices that refer to them.
func (f *fleet) load(c core) {
	var feeds []func() (model.Batch, bool)
	for cluster := range f.clusters {
		slices, pods, big := f.slices()/len(f.clusters), f.pods()/len(f.clusters), 0
		if cluster == 0 {
			big = f.big
		}
		var t names
		feeds = append(feeds,
			f.snapshot(cluster, model.KindService, slices+min(big, 1), func(b *model.Batch, i int) {
				if i == slices {
					b.Services = append(b.Services, f.service(cluster, f.namespaces, bigName, false))
					return
				}
				n := i % slicesPerNS
				b.Services = append(b.Services, f.service(cluster, i/slicesPerNS, f.serviceName(cluster, n), false))
			}),
			f.snapshot(cluster, model.KindEndpointSlice, slices+big, func(b *model.Batch, i int) {
				if i >= slices {
					b.Slices = append(b.Slices, own(f.bigSlice(i-slices, nil, &t)))
					return
				}
				b.Slices = append(b.Slices, own(f.slice(cluster, i/slicesPerNS, i%slicesPerNS, nil, &t)))
			}),
			f.snapshot(cluster, model.KindPod, pods+big*perSlice, func(b *model.Batch, i int) {
				ns, n := i/podsPerNS, i%podsPerNS
				if i >= pods {
					ns, n = f.namespaces, i-pods
				}
				b.Workloads = append(b.Workloads, f.pod(cluster, ns, n, 0))
			}),
			f.snapshot(cluster, model.KindNode, (f.namespaces*podsPerNS+big*perSlice)/podsPerNode, func(b *model.Batch, i int) {
				b.Nodes = append(b.Nodes, &model.Node{Name: nodeName(i), Locality: model.NewLocality("region-1", fmt.Sprint("zone-", i%3), "")})
			}),
		)
	}
	feed(c, feeds)
}

// Each added cluster has so many services, in the namespaces that others have.
const (
	addedServices   = 300
	addedPods       = 4000
	addedNamespaces = 4
)

// add feeds the snapshots of one more cluster to c: 300 services, 4,000 pods,
// each of them behind one service. All such clusters have the same services.
func (f *fleet) add(c core) {
	f.clusters = append(f.clusters, model.ClusterID(fmt.Sprintf("edge-%02d", len(f.clusters))))
	cluster := len(f.clusters) - 1
	const perNS, pods = addedServices / addedNamespaces, addedPods / addedNamespaces
	name := func(n int) string { return fmt.Sprintf("edge-%02d", n) }
	feed(c, []func() (model.Batch, bool){
		f.snapshot(cluster, model.KindService, addedServices, func(b *model.Batch, i int) {
			b.Services = append(b.Services, f.service(cluster, i/perNS, name(i%perNS), false))
		}),
		f.snapshot(cluster, model.KindEndpointSlice, addedServices, func(b *model.Batch, i int) {
			ns, n := i/perNS, i%perNS
			in, zone := startSlice(nil, namespaceName(ns), name(n), name(n)+"-x7k2p")
			for pod := n * pods / perNS; pod < (n+1)*pods/perNS; pod++ {
				in.Endpoints = append(in.Endpoints, model.SliceEndpoint{
					Addr: podAddr(cluster, ns, pod), UID: podUID(cluster, ns, pod), Zone: strings.Clone(zone),
					Pod: string(appendPod(nil, ns, pod)), Conditions: model.EndpointReady | model.EndpointServing,
				})
			}
			b.Slices = append(b.Slices, in)
		}),
		f.snapshot(cluster, model.KindPod, addedPods, func(b *model.Batch, i int) {
			b.Workloads = append(b.Workloads, f.pod(cluster, i/pods, i%pods, 0))
		}),
	})
}

// snapshot returns a function that gives one batch of a snapshot after the
// other; ok is false once there are no more.
func (f *fleet) snapshot(cluster int, kind model.Kind, rows int, add func(b *model.Batch, i int)) func() (b model.Batch, ok bool) {
	i := 0
	return func() (model.Batch, bool) {
		if i >= rows {
			return model.Batch{}, false
		}
		b := model.Batch{Source: f.source(cluster), Epoch: 1, Kind: kind, SnapshotStart: i == 0}
		for end := min(i+rowsPerBatch, rows); i < end; i++ {
			add(&b, i)
		}
		b.SnapshotEnd = i == rows
		return b, true
	}
}

// feed gives c the batches of all feeds in turn, two a round.
func feed(c core, feeds []func() (model.Batch, bool)) {
	var round []model.Batch
	for len(feeds) > 0 {
		next := feeds[0]
		feeds = feeds[1:]
		if b, ok := next(); ok {
			round = append(round, b)
			feeds = append(feeds, next)
		}
		if len(round) == 2 || len(feeds) == 0 {
			c.round(round)
			round = nil
		}
	}
}
