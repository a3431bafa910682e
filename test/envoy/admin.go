package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"tributary/test/tb"
)

// Host is one endpoint of a cluster, as Envoy uses it.
type Host struct {
	// Address is host:port.
	Address string
	// Health is what EDS said of it: HEALTHY, DEGRADED, UNHEALTHY, DRAINING.
	Health string
	// Ejected tells that outlier detection took it out.
	Ejected bool
	// Weight is its share within its locality.
	Weight int
	// Priority is 0 for the hosts that are used first.
	Priority int
	// Region, Zone and SubZone are its locality.
	Region, Zone, SubZone string
}

// Clusters returns the hosts of each cluster by the cluster's name, ordered by
// address. A cluster that waits for its first endpoints has none.
func (e *Envoy) Clusters(ctx context.Context) (map[string][]Host, error) {
	var answer struct {
		ClusterStatuses []struct {
			Name         string
			HostStatuses []struct {
				Address      socket
				Weight       int
				Priority     int
				HealthStatus struct {
					EDSHealthStatus    string `json:"eds_health_status"`
					FailedOutlierCheck bool   `json:"failed_outlier_check"`
				} `json:"health_status"`
				Locality struct {
					Region, Zone string
					SubZone      string `json:"sub_zone"`
				}
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := e.getJSON(ctx, "/clusters?format=json", &answer); err != nil {
		return nil, err
	}
	clusters := make(map[string][]Host, len(answer.ClusterStatuses))
	for _, c := range answer.ClusterStatuses {
		hosts := []Host{}
		for _, h := range c.HostStatuses {
			hosts = append(hosts, Host{
				Address: h.Address.String(), Health: h.HealthStatus.EDSHealthStatus, Ejected: h.HealthStatus.FailedOutlierCheck,
				Weight: h.Weight, Priority: h.Priority,
				Region: h.Locality.Region, Zone: h.Locality.Zone, SubZone: h.Locality.SubZone,
			})
		}
		slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Address, b.Address) })
		clusters[c.Name] = hosts
	}
	return clusters, nil
}

// WaitHosts waits until the hosts of a cluster have exactly the given
// addresses, each host:port, whatever their health.
func (e *Envoy) WaitHosts(t tb.T, timeout time.Duration, cluster string, addresses ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(addresses))
	e.WaitFor(t, timeout, fmt.Sprintf("cluster %s to have %v", cluster, want), func(ctx context.Context) error {
		clusters, err := e.Clusters(ctx)
		if err != nil {
			return err
		}
		hosts, ok := clusters[cluster]
		if !ok {
			return fmt.Errorf("there is no such cluster")
		}
		var got []string
		for _, h := range hosts {
			got = append(got, h.Address)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// Listeners returns the address, host:port, of each listener that listens.
func (e *Envoy) Listeners(ctx context.Context) (map[string]string, error) {
	var answer struct {
		ListenerStatuses []struct {
			Name         string
			LocalAddress socket `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := e.getJSON(ctx, "/listeners?format=json", &answer); err != nil {
		return nil, err
	}
	listeners := make(map[string]string, len(answer.ListenerStatuses))
	for _, l := range answer.ListenerStatuses {
		listeners[l.Name] = l.LocalAddress.String()
	}
	return listeners, nil
}

// socket is Envoy's form of an address in JSON.
type socket struct {
	SocketAddress struct {
		Address   string
		PortValue int `json:"port_value"`
	} `json:"socket_address"`
}

func (s socket) String() string {
	return net.JoinHostPort(s.SocketAddress.Address, strconv.Itoa(s.SocketAddress.PortValue))
}

func (e *Envoy) getJSON(ctx context.Context, path string, into any) error {
	body, err := e.Get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading envoy's %s: %w", path, err)
	}
	return nil
}

// parseStats reads lines "name: value" and leaves out the values that are no
// numbers, which are those of histograms and texts.
func parseStats(text string) map[string]int64 {
	stats := map[string]int64{}
	for line := range strings.Lines(text) {
		// Names may hold a colon, as those of addresses do; values do not.
		i := strings.LastIndex(line, ": ")
		if i < 0 {
			continue
		}
		if v, err := strconv.ParseInt(strings.TrimSpace(line[i+2:]), 10, 64); err == nil {
			stats[line[:i]] = v
		}
	}
	return stats
}
