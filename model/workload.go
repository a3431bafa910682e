package model

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
)

// WorkloadKind tells what object a workload is.
type WorkloadKind uint8

const (
	// Pod is a Kubernetes pod.
	Pod WorkloadKind = iota
	// WorkloadEntry is an Istio WorkloadEntry, usually a virtual machine.
	WorkloadEntry
)

func (k WorkloadKind) String() string { return [...]string{"Pod", "WorkloadEntry"}[k] }

// WorkloadKey is the identity of a workload. Neither an address nor a
// namespace and name alone identify one: addresses are used again, and
// StatefulSets in two clusters share names (I:6 B10, B11).
type WorkloadKey struct {
	Cluster   ClusterID
	Kind      WorkloadKind
	Namespace string
	Name      string
}

// UID is the identity of one incarnation of an object, parsed from the API
// server's text form. The zero value means "not given".
type UID [16]byte

// ParseUID returns the UID that text s stands for: its 16 bytes if s is a
// UUID, else a hash of it, so that equal texts stay equal.
func ParseUID(s string) (u UID) {
	if s == "" {
		return UID{}
	}
	if digits := strings.ReplaceAll(s, "-", ""); len(s) == 36 && len(digits) == 32 {
		if _, err := hex.Decode(u[:], []byte(digits)); err == nil && u != (UID{}) {
			return u
		}
	}
	sum := sha1.Sum([]byte(s))
	copy(u[:], sum[:])
	return u
}

// Identity is what workloads of one service account share. Instances are
// interned by the registry that made them, so many workloads point to one.
type Identity struct {
	Cluster        ClusterID
	Kind           WorkloadKind
	Namespace      string
	ServiceAccount string
}

// Placement is where a workload runs. Instances are interned like Identity.
type Placement struct {
	Node     string
	Locality Locality
	Network  string
}

// Or is the one rule of precedence for where a workload is: what it says itself
// comes first, then its node for the locality and its cluster for the network.
func (p Placement) Or(node Locality, network string) Placement {
	if p.Locality == "" {
		p.Locality = node
	}
	if p.Network == "" {
		p.Network = network
	}
	return p
}

// Locality is where an endpoint is, as text "region/zone/subzone"; trailing
// empty parts are left out. "" means unknown.
type Locality string

// NewLocality joins the parts, leaving out trailing empty ones.
func NewLocality(region, zone, subzone string) Locality {
	return Locality(strings.TrimRight(region+"/"+zone+"/"+subzone, "/"))
}

// Split returns the parts.
func (l Locality) Split() (region, zone, subzone string) {
	region, rest, _ := strings.Cut(string(l), "/")
	zone, subzone, _ = strings.Cut(rest, "/")
	return region, zone, subzone
}

// WorkloadInstance is one pod or WorkloadEntry. A registry announces it to its
// workload handlers; services of any registry may select it by its labels, and
// endpoint rows point to it. It is immutable: a change makes a new instance.
type WorkloadInstance struct {
	Name      string
	UID       UID
	Addr      Addr // first address; zero if it has none (yet)
	Labels    Labels
	Identity  *Identity
	Placement *Placement
	Details   *WorkloadDetails // nil for most
	State     WorkloadState
}

// WorkloadDetails is what only some workloads have.
type WorkloadDetails struct {
	More  []Addr      // further addresses, for dual stack
	Ports []NamedPort // ports that the workload names, sorted by name
}

// OneAddress reports whether w has no further addresses.
func (w *WorkloadInstance) OneAddress() bool { return w.Details == nil || len(w.Details.More) == 0 }

// Equal reports whether d and o list the same; nil equals nil only.
func (d *WorkloadDetails) Equal(o *WorkloadDetails) bool {
	if d == o {
		return true
	}
	return d != nil && o != nil && slices.Equal(d.More, o.More) && slices.Equal(d.Ports, o.Ports)
}

// NamedPort is a port that a workload names: a container port of a pod, or an
// entry of a WorkloadEntry's ports map.
type NamedPort struct {
	Name   string
	Number uint16
}

// WorkloadState is what of a workload's status matters for its endpoints.
type WorkloadState uint8

const (
	// Ready is set while the workload passes its readiness checks.
	Ready WorkloadState = 1 << iota
	// Terminating is set once its deletion was asked for.
	Terminating
	// Finished is set when it ended for good (phase Succeeded or Failed).
	Finished
	// HostNetwork is set if it shares its node's addresses.
	HostNetwork
	// AnotherUID is set in a placeholder (see EndpointMissing) while a workload of
	// that name is there, but another incarnation than the one referred to.
	AnotherUID
)

// Serving reports whether the workload exists, is ready and stays: what a
// service that selects it by labels needs of it.
func (s WorkloadState) Serving() bool { return s&(Ready|Terminating|Finished) == Ready }

// Key returns the identity of w.
func (w *WorkloadInstance) Key() WorkloadKey {
	return WorkloadKey{w.Identity.Cluster, w.Identity.Kind, w.Identity.Namespace, w.Name}
}

// Equal reports whether w and o say the same, wherever it is stored.
func (w *WorkloadInstance) Equal(o *WorkloadInstance) bool {
	if w == o {
		return true
	}
	return w != nil && o != nil && w.Name == o.Name && w.UID == o.UID && w.Addr == o.Addr && w.Labels == o.Labels && w.State == o.State &&
		same(w.Identity, o.Identity) && same(w.Placement, o.Placement) && w.Details.Equal(o.Details)
}

func same[V comparable](a, b *V) bool { return a == b || a != nil && b != nil && *a == *b }
