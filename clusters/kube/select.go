package kube

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"tributary/model"
)

// Services select WorkloadEntries: of every cluster, in their own namespace, by
// their selector (I:1D). Which workloads there are stands in the shared table of
// the core; here is only which services want them.

// selectWorkloads returns the slices that service s has by selection, sorted by
// cluster, then name. Workloads whose ports resolve alike share one.
func (r *Registry) selectWorkloads(s *model.Service) []*model.Slice {
	if !selects(s) {
		return nil
	}
	type group struct {
		cluster model.ClusterID
		ports   string
	}
	groups := map[group]*model.Slice{}
	for w := range r.workloads(s.Key.Namespace) {
		if !s.Selector.Matches(w.Labels) || !w.State.Serving() || w.Addr.IsZero() {
			continue
		}
		ports := targetPorts(s, w)
		if len(ports) == 0 {
			continue
		}
		g := group{w.Identity.Cluster, portsText(ports)}
		slice := groups[g]
		if slice == nil {
			slice = &model.Slice{
				Cluster: g.cluster, Ports: ports,
				Object: model.NamespacedName{Namespace: s.Key.Namespace, Name: s.Name + " selects WorkloadEntries at " + g.ports},
			}
			groups[g] = slice
		}
		slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: w.Addr, Workload: w, Locality: 255, Flags: model.EndpointReady | model.EndpointServing})
	}
	var out []*model.Slice
	for _, slice := range groups {
		slices.SortFunc(slice.Endpoints, compareSelected)
		slice.Accounts = accountsOf(slice.Endpoints, nil)
		out = append(out, slice)
	}
	slices.SortFunc(out, compareSlices)
	return out
}

// selects reports whether s can have endpoints by selection: Kubernetes
// Services that clients balance over, with a selector.
func selects(s *model.Service) bool {
	return s != nil && s.Resolution == model.ClientSideLB && !s.Selector.Empty()
}

func compareSelected(a, b model.Endpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.Workload.Name, b.Workload.Name))
}

func compareSlices(a, b *model.Slice) int {
	return cmp.Or(strings.Compare(string(a.Cluster), string(b.Cluster)), a.Object.Compare(b.Object))
}

// targetPorts resolves the ports of s on workload w: a port that w names as the
// service does wins, a numeric target port is taken as it is, a named one must
// be a port of w, and none means the service's own number. UDP and SCTP ports are
// left out, as clients do not balance over them.
func targetPorts(s *model.Service, w *model.WorkloadInstance) []model.SlicePort {
	var ports []model.SlicePort
	for _, p := range s.Ports {
		if p.Protocol == model.UDP || p.Protocol == model.SCTP {
			continue
		}
		number, ok := namedPort(w, p.Name)
		if !ok {
			switch n, err := strconv.ParseUint(p.TargetPort, 10, 16); {
			case p.TargetPort == "":
				number = p.Number
			case err == nil:
				number = uint16(n)
			default:
				if number, ok = namedPort(w, p.TargetPort); !ok {
					continue
				}
			}
		}
		ports = append(ports, model.SlicePort{Name: p.Name, Number: number})
	}
	return ports
}

func namedPort(w *model.WorkloadInstance, name string) (uint16, bool) {
	if w.Details == nil {
		return 0, false
	}
	for _, p := range w.Details.Ports {
		if p.Name == name {
			return p.Number, true
		}
	}
	return 0, false
}

func portsText(ports []model.SlicePort) string {
	var b strings.Builder
	for i, p := range ports {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(p.Name + ":" + strconv.Itoa(int(p.Number)))
	}
	return b.String()
}
