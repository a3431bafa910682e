package main

import (
	"fmt"
	"strings"

	"tributary/model"
)

// The big service is in a namespace of its own behind the others, in the first
// cluster. Its pods are numbered through.
const bigName = "front-door"

// bigSlice makes slice n of the big service.
func (f *fleet) bigSlice(n int, in *model.EndpointSlice, t *names) *model.EndpointSlice {
	ns := f.namespaces
	in, zone := startSlice(in, namespaceName(ns), bigName, fmt.Sprintf("%s-%05x", bigName, hash(n, 1)&0xfffff))
	t.text, t.ends = t.text[:0], t.ends[:0]
	for j := range perSlice {
		pod := n*perSlice + j
		e := model.SliceEndpoint{Addr: podAddr(0, ns, pod), UID: podUID(0, ns, pod), Zone: zone}
		if f.flips[n][j/64]>>(j%64)&1 == 0 {
			e.Conditions = model.EndpointReady | model.EndpointServing
		}
		in.Endpoints = append(in.Endpoints, e)
		t.text = appendPod(t.text, ns, pod)
		t.ends = append(t.ends, len(t.text))
	}
	t.give(in)
	return in
}

// change is one kind of change. make fills the slot with a batch; it may use
// the memory that the slot's last batch had, which the core has done with.
type change struct {
	short string
	name  string
	make  func(f *fleet, s *slot)
	trait
}

// trait says what a kind of change needs, and does.
type trait uint8

const (
	bare     trait = 1 << iota // bare rows can do it
	big                        // it needs the big service
	rendered                   // it goes on up to the bytes that clients are given
)

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
	{"slice", "slice: one endpoint replaced", func(f *fleet, s *slot) { f.replace(s, 0, notReady) }, bare},
	{"rendered", "slice: one endpoint replaced, up to the bytes", func(f *fleet, s *slot) { f.replace(s, 0, notReady) }, rendered},
	{"held", "slice: same, ready and held 100 ms", func(f *fleet, s *slot) { f.replace(s, notReady, perSlice) }, 0},
	{"same-slice", "slice: written again, no change", func(f *fleet, s *slot) { f.replace(s, 0, 0) }, bare},
	{"label", "pod in 5 slices: label changed", func(f *fleet, s *slot) {
		f.changePod(s, func(v uint8) uint8 { return (v + 1) &^ podNotReady })
	}, bare},
	{"ready", "pod in 5 slices: readiness flipped", func(f *fleet, s *slot) {
		f.changePod(s, func(v uint8) uint8 { return v ^ podNotReady })
	}, bare},
	{"same-pod", "pod in 5 slices: written again, no change", func(f *fleet, s *slot) {
		f.changePod(s, func(v uint8) uint8 { return v })
	}, bare},
	{"port", "service: port added or removed", (*fleet).changePort, bare},
	{"big", "service of 100 slices: one slice changed", (*fleet).flipBig, bare | big},
}

// kinds lists the short names of all changes.
func kinds() string {
	var all []string
	for _, c := range changes {
		all = append(all, c.short)
	}
	return strings.Join(all, ", ")
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
