package model

import (
	"cmp"
	"strings"
)

// ClusterID names one cluster: the key of a remote secret, the --cluster-id of
// the config cluster, or a directory of a fleet.
type ClusterID string

// Provider tells which kind of registry defines a service. The values are
// Istio's, as they stand in its debug pages.
type Provider string

const (
	// Kubernetes is the provider of Services of a Kubernetes cluster.
	Kubernetes Provider = "Kubernetes"
	// External is the provider of ServiceEntries.
	External Provider = "External"
)

// ShardKey names the endpoints that one provider has from one cluster. It is
// also the identity of the source whose batches fill that shard.
type ShardKey struct {
	Provider Provider
	Cluster  ClusterID
}

// String returns "Provider/cluster", the form of Istio's endpointShardz.
func (k ShardKey) String() string { return string(k.Provider) + "/" + string(k.Cluster) }

// Compare orders shards by provider, then cluster: the order in which every
// output lists them.
func (k ShardKey) Compare(o ShardKey) int {
	return cmp.Or(cmp.Compare(o.Provider.rank(), k.Provider.rank()), strings.Compare(string(k.Cluster), string(o.Cluster)))
}

// rank puts Kubernetes before every other provider.
func (p Provider) rank() int {
	if p == Kubernetes {
		return 1
	}
	return 0
}

// ServiceKey names a service across clusters: one host in one namespace.
type ServiceKey struct {
	Host      string
	Namespace string
}

// String returns "namespace/host".
func (k ServiceKey) String() string { return k.Namespace + "/" + k.Host }

// Compare orders by host, then namespace, so that all namespaces of a host are
// neighbours.
func (k ServiceKey) Compare(o ServiceKey) int {
	return cmp.Or(strings.Compare(k.Host, o.Host), strings.Compare(k.Namespace, o.Namespace))
}

// NamespacedName names an object within one cluster and kind.
type NamespacedName struct {
	Namespace string
	Name      string
}

// String returns "namespace/name".
func (n NamespacedName) String() string { return n.Namespace + "/" + n.Name }

// Compare orders by namespace, then name.
func (n NamespacedName) Compare(o NamespacedName) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name))
}
