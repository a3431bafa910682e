package dataset

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// Shape says how much data there is.
type Shape struct {
	Clusters   int  `json:"clusters"`
	Namespaces int  `json:"namespaces"`
	Services   int  `json:"services"`
	Endpoints  int  `json:"endpoints_per_service_and_cluster"`
	Pods       bool `json:"pods"` // behind each endpoint is a Pod with eight labels
}

// Cluster is one API server and its name.
type Cluster struct {
	ID     string
	Client kubernetes.Interface
}

// Data is a filled set of clusters.
type Data struct {
	shape    Shape
	clusters []Cluster
	fresh    int // addresses given out by Fresh

	mu      sync.Mutex
	uids    map[place]string // of the pods behind endpoints
	changed map[spot]string  // the pod that Replace put there; "" without pods
}

// spot is a service in a cluster, and place one of its endpoints.
type spot struct{ cluster, service int }

type place struct {
	spot
	endpoint int
}

// writers is how many requests to one API server are under way while it is
// filled.
const writers = 8

// Fill creates the objects of a shape in clusters that have none of them yet.
func Fill(ctx context.Context, shape Shape, clusters []Cluster) (*Data, error) {
	d := &Data{shape: shape, clusters: clusters, uids: map[place]string{}, changed: map[spot]string{}}
	if n := shape.Clusters*shape.Services*shape.Endpoints + 1_000_000; n > addresses {
		return nil, fmt.Errorf("filling the clusters: %d endpoints are more than there are addresses for", n)
	}
	for i := range clusters {
		if err := d.createNamespaces(ctx, i); err != nil {
			return nil, fmt.Errorf("filling cluster %s: %w", clusters[i].ID, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for c := range clusters {
		work := make(chan int)
		group.Go(func() error {
			defer close(work)
			for i := range shape.Services {
				select {
				case work <- i:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		for range writers {
			group.Go(func() error {
				for i := range work {
					if err := d.createService(ctx, spot{c, i}); err != nil {
						return fmt.Errorf("filling cluster %s: %w", clusters[c].ID, err)
					}
				}
				return nil
			})
		}
	}
	return d, group.Wait()
}

// Names returns the names of the services' clusters in xDS, by number.
func (d *Data) Names() []string {
	names := make([]string, d.shape.Services)
	for i := range names {
		names[i] = ClusterName(serviceName(i), d.namespace(i))
	}
	return names
}

// ClusterName returns the name in xDS of a service of the data.
func ClusterName(service, namespace string) string {
	return fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", servicePort, service, namespace)
}

// Fresh returns an address that no endpoint has, and never the same again.
func (d *Data) Fresh() string {
	d.fresh++
	return address(addresses - d.fresh)
}

// addresses is how many addresses there are. Their last three octets have three
// digits, so that none is the beginning of another: arrivals are found by
// looking for the text of an address in undecoded bytes.
const addresses = 156 * 156 * 156

func address(n int) string {
	return fmt.Sprintf("10.%d.%d.%d", 100+n/(156*156), 100+n/156%156, 100+n%156)
}

// first returns the first endpoint's address of a service, by number; the others
// follow it.
func (d *Data) first(s spot) int {
	return (s.cluster*d.shape.Services + s.service) * d.shape.Endpoints
}
