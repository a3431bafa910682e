package sample

import (
	"fmt"

	"tributary/model"
)

// created is when the services were created, in Unix seconds.
const created = 1_750_000_000

var (
	east = model.ShardKey{Provider: model.Kubernetes, Cluster: "east"}
	west = model.ShardKey{Provider: model.Kubernetes, Cluster: "west"}
	old  = model.ShardKey{Provider: model.Kubernetes, Cluster: "old"}
	vms  = model.ShardKey{Provider: model.External, Cluster: "east"}
)

const (
	ready = model.EndpointReady | model.EndpointServing
)

func address(s string) model.Addr {
	a, ok := model.ParseAddr(s)
	if !ok {
		panic("not an address: " + s)
	}
	return a
}

func pod(cluster model.ClusterID, name, account string, n int) *model.WorkloadInstance {
	zone := string(cluster) + "-1" + string(rune('a'+n%3))
	return &model.WorkloadInstance{
		Name: name, UID: model.ParseUID(name), State: model.Ready,
		Labels:    model.NewLabels(map[string]string{"app": account, "version": "v1", "security.istio.io/tlsMode": "istio"}),
		Identity:  &model.Identity{Cluster: cluster, Kind: model.Pod, Namespace: "shop", ServiceAccount: account},
		Placement: &model.Placement{Node: fmt.Sprintf("node-%d", n%3), Locality: model.NewLocality("eu", zone, ""), Network: "net-" + string(cluster)},
	}
}

func service(by model.ShardKey, namespace, name string, ports []model.Port, vips ...string) *model.Service {
	s := &model.Service{
		Key:      model.ServiceKey{Host: name + "." + namespace + ".svc.cluster.local", Namespace: namespace},
		Registry: by, Name: name, Created: created, Version: 4711, Ports: ports,
		Selector: model.NewLabels(map[string]string{"app": name}),
	}
	for _, v := range vips {
		s.VIPs = append(s.VIPs, address(v))
	}
	return s
}

func define(winner *model.Service, others ...*model.Service) *model.Definition {
	d := &model.Definition{Key: winner.Key, Winner: winner, Sources: append([]*model.Service{winner}, others...), Ports: winner.Ports, Resolution: winner.Resolution}
	for _, s := range d.Sources {
		if len(s.VIPs) > 0 {
			d.VIPs = append(d.VIPs, model.ClusterVIPs{Cluster: s.Registry.Cluster, VIPs: s.VIPs})
		}
	}
	return d
}

var (
	http = model.Port{Name: "http", Number: 80, Protocol: model.HTTP, TargetPort: "8080"}
	grpc = model.Port{Name: "grpc", Number: 9090, Protocol: model.GRPC}
)

func slice(by model.ShardKey, namespace, name string, endpoints ...model.Endpoint) *model.Slice {
	return &model.Slice{
		Cluster: by.Cluster, Object: model.NamespacedName{Namespace: namespace, Name: name}, Version: 815,
		Ports:      []model.SlicePort{{Name: "http", Number: 8080}, {Name: "grpc", Number: 9090}},
		Localities: []model.Locality{"eu/" + model.Locality(by.Cluster) + "-1a"}, Endpoints: endpoints,
	}
}

// Delta returns the whole registry of the fleet.
func Delta() model.Delta {
	services := []model.ServiceDelta{cart(), empty(), hostile(), reviews(), database()}
	for i := range services {
		services[i].Key = services[i].Definition.Key
		services[i].Push = model.ServicePush
	}
	return model.Delta{Services: services, Synced: []model.Synced{{Source: east}, {Source: west}, {Source: old}}}
}

// reviews has an endpoint in every state.
func reviews() model.ServiceDelta {
	d := define(service(east, "shop", "reviews", []model.Port{http, grpc}, "10.1.0.10"), service(west, "shop", "reviews", []model.Port{http}, "10.2.0.10", "fd00::10"))
	d.Accounts = []string{"shop/reviews"}
	d.Conflicts = []model.Conflict{{Field: "port http", Winner: east, Loser: west, Detail: "80/HTTP against 8000/HTTP"}}
	moving := pod("east", "reviews-5", "reviews", 5)
	vm := pod("east", "reviews-vm", "reviews", 6)
	vm.Identity = &model.Identity{Cluster: "east", Kind: model.WorkloadEntry, Namespace: "shop", ServiceAccount: "reviews"}
	return model.ServiceDelta{Definition: d, Shards: []model.Shard{
		{Key: east, Slices: []*model.Slice{
			slice(east, "shop", "reviews-aaaaa",
				model.Endpoint{Addr: address("10.1.1.1"), Workload: pod("east", "reviews-1", "reviews", 1), Flags: ready},
				model.Endpoint{Addr: address("10.1.1.2"), Workload: pod("east", "reviews-2", "reviews", 2), Flags: ready, Weight: 3},
				model.Endpoint{Addr: address("10.1.1.3"), Workload: &model.WorkloadInstance{Name: "reviews-3"}, Flags: ready | model.EndpointMissing},
				model.Endpoint{Addr: address("10.1.1.4"), Workload: pod("east", "reviews-4", "reviews", 4), Flags: 0},
				model.Endpoint{Addr: address("10.1.1.5"), Workload: moving, Flags: ready | model.EndpointMoving},
			),
			{Cluster: "east", Object: model.NamespacedName{Namespace: "shop", Name: "reviews-by-hand"}, Version: 17,
				Ports: []model.SlicePort{{Name: "web", Number: 1}}, Endpoints: []model.Endpoint{{Addr: address("10.1.1.9"), Flags: ready}}},
		}},
		{Key: west, Slices: []*model.Slice{slice(west, "shop", "reviews-bbbbb",
			model.Endpoint{Addr: address("10.2.1.1"), Workload: pod("west", "reviews-1", "reviews", 1), Flags: ready},
			model.Endpoint{Addr: address("10.2.1.2"), Workload: pod("west", "reviews-2", "reviews", 2), Flags: model.EndpointServing | model.EndpointTerminating},
		)}},
		{Key: vms, Slices: []*model.Slice{slice(vms, "shop", "reviews-vm",
			model.Endpoint{Addr: address("10.1.1.1"), Workload: vm, Flags: ready})}},
	}}
}

// cart has two slices that fare differently by port.
func cart() model.ServiceDelta {
	d := define(service(west, "shop", "cart", []model.Port{http, grpc}, "10.2.0.20"))
	d.Accounts = []string{"shop/cart"}
	only := slice(west, "shop", "cart-1", model.Endpoint{Addr: address("10.2.2.1"), Workload: pod("west", "cart-1", "cart", 1), Flags: ready})
	only.Ports = only.Ports[:1]
	return model.ServiceDelta{Definition: d, Shards: []model.Shard{{Key: west, Slices: []*model.Slice{
		only, slice(west, "shop", "cart-2", model.Endpoint{Addr: address("10.2.2.1"), Workload: pod("west", "cart-1", "cart", 1), Flags: ready}),
	}}}}
}

func empty() model.ServiceDelta {
	return model.ServiceDelta{Definition: define(service(east, "shop", "empty", []model.Port{{Name: "dns", Number: 53, Protocol: model.UDP}}, "10.1.0.30"))}
}

func database() model.ServiceDelta {
	s := service(east, "store", "database", []model.Port{{Number: 5432}})
	s.Resolution = model.Passthrough
	single := slice(east, "store", "database-1", model.Endpoint{Addr: address("fd00::1"), Flags: ready})
	single.Ports = []model.SlicePort{{Number: 5432}}
	return model.ServiceDelta{Definition: define(s), Shards: []model.Shard{{Key: east, Slices: []*model.Slice{single}}}}
}

func hostile() model.ServiceDelta {
	s := service(east, "shop", "evil", []model.Port{http}, "10.1.0.66")
	s.Created = 0
	s.Key.Host, s.Name = "evil<img src=x onerror=\"document.title='pwned'\">\x1b[31m", "evil"
	return model.ServiceDelta{Definition: define(s)}
}
