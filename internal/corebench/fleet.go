package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"tributary/model"
)

// shape is what a fleet looks like.
type shape struct {
	name       string
	labels     int  // of each pod; the first four are those of its application
	ownLabels  int  // of these, how many only that pod has
	labelSets  int  // of 1000 pods, how many differ in their labels
	sharedHost bool // the clusters have the same services
	big        int  // slices of one more service, in the first cluster
}

var shapes = []shape{
	{name: "unique", labels: 8, ownLabels: 2, labelSets: 1000, sharedHost: true, big: 100},
	{name: "shared", labels: 6, labelSets: 600},
}

// Of each cluster, a namespace has 5 applications of 200 pods, and each of
// them 10 services that select 100 of its pods: one slice. A pod is in 5 slices.
const (
	perSlice     = 100
	slicesPerNS  = 50
	podsPerNS    = 1000
	podsPerApp   = 200
	slicesPerApp = 10
	// The first endpoints of each slice are not ready, so that one that leaves
	// is not held for another slice to take it over.
	notReady = 10
)

// fleet makes the rows of a shape and size, and their changes. It holds only
// what the changes have made of it.
type fleet struct {
	shape
	namespaces int // of each cluster
	clusters   []model.ClusterID

	chosen   [][2]uint64 // by slice: which of its two candidates each endpoint is
	versions []uint8     // by pod: the version label, and whether it is not ready
	ports    []bool      // by service and cluster: the third port is there
	flips    [][2]uint64 // by slice of the big service: endpoints that are not ready
	step     int
}

const podNotReady = 0x80

func newFleet(s shape, endpoints int) *fleet {
	f := &fleet{shape: s, namespaces: endpoints / 2 / (slicesPerNS * perSlice), clusters: []model.ClusterID{"east", "west"}}
	f.chosen = make([][2]uint64, f.slices())
	f.versions = make([]uint8, f.pods())
	f.ports = make([]bool, f.slices())
	f.flips = make([][2]uint64, s.big)
	return f
}

func (f *fleet) slices() int { return len(f.clusters) * f.namespaces * slicesPerNS }
func (f *fleet) pods() int   { return len(f.clusters) * f.namespaces * podsPerNS }

// at splits the number of a row into its cluster, namespace and number there.
func (f *fleet) at(i, perNS int) (cluster, namespace, n int) {
	return i / (f.namespaces * perNS), i / perNS % f.namespaces, i % perNS
}

func (f *fleet) source(cluster int) model.ShardKey {
	return model.ShardKey{Provider: model.Kubernetes, Cluster: f.clusters[cluster]}
}

const podsPerNode = 20

func nodeName(n int) string { return fmt.Sprintf("node-%05d", n) }

func namespaceName(n int) string { return fmt.Sprintf("team-%04d", n) }

func (f *fleet) serviceName(cluster, n int) string {
	if f.sharedHost {
		return fmt.Sprintf("backend-%02d", n)
	}
	return fmt.Sprintf("backend-%02d-%s", n, f.clusters[cluster])
}

func hash(a, b int) uint64 {
	h := uint64(a)*0x9e3779b97f4a7c15 ^ uint64(b)*0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>29
}

// appendPod appends the name of a pod, like "backend-3-5d8f0c7e1b-0x4tz".
func appendPod(b []byte, namespace, pod int) []byte {
	b = append(b, "backend-"...)
	b = strconv.AppendInt(b, int64(pod/podsPerApp), 10)
	b = append(b, '-')
	b = strconv.AppendUint(b, 1<<39|hash(namespace, pod/podsPerApp)>>25, 16)
	b = append(b, '-')
	return strconv.AppendInt(b, int64(60466176+pod), 36)
}

func podUID(cluster, namespace, pod int) (u model.UID) {
	binary.BigEndian.PutUint64(u[:], hash(cluster, namespace))
	binary.BigEndian.PutUint64(u[8:], hash(namespace, pod))
	return u
}

func podAddr(cluster, namespace, pod int) model.Addr {
	a := model.Addr{10: 0xff, 11: 0xff, 12: 10}
	binary.BigEndian.PutUint32(a[12:], 10<<24|uint32(cluster)<<20+uint32(namespace*podsPerNS+pod))
	return a
}

// pod makes the row of a pod as the watch would: nothing in it is shared.
func (f *fleet) pod(cluster, namespace, pod int, version uint8) *model.WorkloadInstance {
	app := pod / podsPerApp
	name := string(appendPod(nil, namespace, pod))
	ns := namespaceName(namespace)
	set := pod
	if f.labelSets < podsPerNS {
		set = pod % f.labelSets
	}
	labels := map[string]string{
		"app":               fmt.Sprintf("backend-%d", app),
		"version":           fmt.Sprintf("v%d", version&^podNotReady),
		"team":              ns,
		"pod-template-hash": fmt.Sprintf("%010x", hash(namespace, set)>>24),
	}
	for i := len(labels); i < f.labels-f.ownLabels; i++ {
		labels[fmt.Sprintf("app.kubernetes.io/part-%d", i)] = fmt.Sprintf("shop-%d", app)
	}
	if f.ownLabels > 0 {
		labels["statefulset.kubernetes.io/pod-name"] = name
		labels["example.com/instance-hash"] = fmt.Sprintf("%016x", hash(pod, namespace))
	}
	w := &model.WorkloadInstance{
		Name:      name,
		UID:       podUID(cluster, namespace, pod),
		Addr:      podAddr(cluster, namespace, pod),
		Labels:    model.NewLabels(labels),
		Identity:  &model.Identity{Cluster: f.clusters[cluster], Kind: model.Pod, Namespace: ns, ServiceAccount: fmt.Sprintf("backend-%d", app)},
		Placement: &model.Placement{Node: nodeName((namespace*podsPerNS + pod) / podsPerNode)},
	}
	if version&podNotReady == 0 {
		w.State = model.Ready
	}
	return w
}

// service makes the row of a service.
func (f *fleet) service(cluster, namespace int, name string, more bool) *model.Service {
	ns := namespaceName(namespace)
	s := &model.Service{
		Key:      model.ServiceKey{Host: name + "." + ns + ".svc.cluster.local", Namespace: ns},
		Registry: f.source(cluster), Name: strings.Clone(name), Created: 1_700_000_000,
		Ports: []model.Port{
			{Name: strings.Clone("http"), Number: 80, Protocol: model.HTTP, TargetPort: strings.Clone("8080")},
			{Name: strings.Clone("grpc"), Number: 90, Protocol: model.GRPC, TargetPort: strings.Clone("9090")},
		},
		VIPs:     []model.Addr{podAddr(cluster+8, namespace, int(hash(namespace, len(name))%podsPerNS))},
		Selector: model.NewLabels(map[string]string{"app": name}),
	}
	if more {
		s.Ports = append(s.Ports, model.Port{Name: strings.Clone("admin"), Number: 99, Protocol: model.HTTP, TargetPort: strings.Clone("9999")})
	}
	return s
}

// names collects texts so that they become parts of one new string: what a
// batch of a change brings is new to the core without being a hundred objects.
// The core keeps none of it, as it knows the pods.
type names struct {
	text []byte
	ends []int
}

// slice makes slice n of a namespace, in the memory of in if that is given.
func (f *fleet) slice(cluster, namespace, n int, in *model.EndpointSlice, t *names) *model.EndpointSlice {
	ns := namespaceName(namespace)
	i := (cluster*f.namespaces+namespace)*slicesPerNS + n
	chosen := f.chosen[i]
	service := f.serviceName(cluster, n)
	in, zone := startSlice(in, ns, service, service+"-x7k2p")
	t.text, t.ends = t.text[:0], t.ends[:0]
	for j := range perSlice {
		pod := n/slicesPerApp*podsPerApp + 2*j + (n+int(chosen[j/64]>>(j%64)))&1
		e := model.SliceEndpoint{Addr: podAddr(cluster, namespace, pod), UID: podUID(cluster, namespace, pod), Zone: zone}
		if j >= notReady {
			e.Conditions = model.EndpointReady | model.EndpointServing
		}
		in.Endpoints = append(in.Endpoints, e)
		t.text = appendPod(t.text, namespace, pod)
		t.ends = append(t.ends, len(t.text))
	}
	t.give(in)
	return in
}

// startSlice empties in, or makes a new slice if there is none.
func startSlice(in *model.EndpointSlice, ns, service, name string) (s *model.EndpointSlice, zone string) {
	var reuse []model.SliceEndpoint
	if in != nil {
		reuse = in.Endpoints[:0]
	}
	return &model.EndpointSlice{
		Object: model.NamespacedName{Namespace: strings.Clone(ns), Name: name}, Service: service,
		Ports:     []model.SlicePort{{Name: strings.Clone("grpc"), Number: 9090}, {Name: strings.Clone("http"), Number: 8080}},
		Endpoints: reuse,
	}, strings.Clone("zone-a")
}

// give names the pods of a slice.
func (t *names) give(in *model.EndpointSlice) {
	text, start := string(t.text), 0
	for i, end := range t.ends {
		in.Endpoints[i].Pod = text[start:end]
		start = end
	}
}

// own gives each name a string of its own, as the core keeps those of pods that
// it does not know yet.
func own(in *model.EndpointSlice) *model.EndpointSlice {
	for i := range in.Endpoints {
		in.Endpoints[i].Pod = strings.Clone(in.Endpoints[i].Pod)
		in.Endpoints[i].Zone = strings.Clone(in.Endpoints[i].Zone)
	}
	return in
}
