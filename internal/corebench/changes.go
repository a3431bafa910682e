package main

import (
	"fmt"

	"tributary/model"
)

// The big service is in a namespace of its own behind the others, in the first
// cluster.

func (f *fleet) bigPods() int { return f.big * perSlice }

func (f *fleet) bigPod(i int) *model.WorkloadInstance {
	return f.pod(0, f.namespaces+i/podsPerNS, i%podsPerNS, 0)
}

// bigNamespace moves w, made for a namespace of its number, to that of the
// big service, where pods of several such namespaces are together.
func (f *fleet) bigNamespace() int { return f.namespaces }

const bigName = "front-door"

func (f *fleet) bigService() *model.Service {
	return f.service(0, f.bigNamespace(), bigName, false)
}

// bigSlice makes slice n of the big service.
func (f *fleet) bigSlice(n int, in *model.EndpointSlice, t *names) *model.EndpointSlice {
	ns := namespaceName(f.bigNamespace())
	in, zone := startSlice(in, ns, bigName, fmt.Sprintf("%s-%05x", bigName, hash(n, 1)&0xfffff))
	t.text, t.ends = t.text[:0], t.ends[:0]
	for j := range perSlice {
		pod := n*perSlice + j
		of, i := f.namespaces+pod/podsPerNS, pod%podsPerNS
		e := model.SliceEndpoint{Addr: podAddr(0, of, i), UID: podUID(0, of, i), Zone: zone}
		if f.flips[n][j/64]>>(j%64)&1 == 0 {
			e.Conditions = model.EndpointReady | model.EndpointServing
		}
		in.Endpoints = append(in.Endpoints, e)
		t.text = appendPod(t.text, of, i)
		t.ends = append(t.ends, len(t.text))
	}
	t.give(in)
	return in
}

// change is one kind of change. make fills the slot with a batch; it may use
// the memory that the slot's last batch had, which the core has done with.
type change struct {
	name string
	make func(f *fleet, s *slot)
	// pace is the time between two changes as the core's clock sees it, in
	// milliseconds.
	pace int
}

// slot is a batch to be, with memory that is used again.
type slot struct {
	batch  model.Batch
	slices [1]*model.EndpointSlice
	names  names
}

func (s *slot) slice(source model.ShardKey) {
	s.batch = model.Batch{Source: source, Kind: model.KindEndpointSlice, Slices: s.slices[:]}
}

// next returns the number of the next of n rows to change. A step is coprime
// to every n, so all have their turn, far from each other.
func (f *fleet) next(n int) int {
	f.step++
	return f.step * 7919 % n
}

var changes = []change{
	{"slice: one endpoint replaced", func(f *fleet, s *slot) { f.replace(s, 0, notReady) }, 1},
	{"slice: ready endpoint replaced, held 100 ms", func(f *fleet, s *slot) { f.replace(s, notReady, perSlice) }, 1},
	{"slice: written again, no change", func(f *fleet, s *slot) { f.replace(s, 0, 0) }, 1},
	{"pod: label changed, in 5 slices", func(f *fleet, s *slot) {
		f.changePod(s, func(v uint8) uint8 { return v&podNotReady | (v+1)&^podNotReady })
	}, 1},
	{"pod: readiness flipped, in 5 slices", func(f *fleet, s *slot) {
		f.changePod(s, func(v uint8) uint8 { return v ^ podNotReady })
	}, 1},
	{"pod: written again, no change", func(f *fleet, s *slot) { f.changePod(s, func(v uint8) uint8 { return v }) }, 1},
	{"service: port added or removed", (*fleet).changePort, 1},
	{"big service: one slice of 100 changed", (*fleet).flipBig, 1},
}

// replace makes the next slice with one of its endpoints from..to replaced by
// another pod.
func (f *fleet) replace(s *slot, from, to int) {
	i := f.next(f.slices())
	if to > from {
		j := from + int(hash(f.step, i)%uint64(to-from))
		f.chosen[i][j/64] ^= 1 << (j % 64)
	}
	cluster, ns, n := f.at(i, slicesPerNS)
	s.slices[0] = f.slice(cluster, ns, n, s.slices[0], &s.names)
	s.slice(f.source(cluster))
}

func (f *fleet) changePod(s *slot, to func(uint8) uint8) {
	i := f.next(f.pods())
	f.versions[i] = to(f.versions[i])
	cluster, ns, n := f.at(i, podsPerNS)
	s.batch = model.Batch{Source: f.source(cluster), Kind: model.KindPod, Workloads: []*model.WorkloadInstance{f.pod(cluster, ns, n, f.versions[i])}}
}

func (f *fleet) changePort(s *slot) {
	i := f.next(f.slices())
	f.ports[i] = !f.ports[i]
	cluster, ns, n := f.at(i, slicesPerNS)
	s.batch = model.Batch{Source: f.source(cluster), Kind: model.KindService, Services: []*model.Service{f.service(cluster, ns, f.serviceName(cluster, n), f.ports[i])}}
}

func (f *fleet) flipBig(s *slot) {
	n := f.next(f.big)
	j := f.step / 3 % perSlice
	f.flips[n][j/64] ^= 1 << (j % 64)
	s.slices[0] = f.bigSlice(n, s.slices[0], &s.names)
	s.slice(f.source(0))
}
