package aggregate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tributary/model"
)

// merge joins the definitions of one host and namespace. The first in order of
// precedence is the winner: it decides wherever they differ, and each
// difference is reported as a conflict. Nothing of a registry is edited: a
// merged value that outlives its source was Istio's B7 and B37.
func merge(key model.ServiceKey, config model.ClusterID, rows []definitionRow) *model.Definition {
	if len(rows) == 0 {
		return nil
	}
	sources := make([]*model.Service, 0, len(rows))
	for _, r := range rows {
		sources = append(sources, r.service)
	}
	slices.SortStableFunc(sources, func(a, b *model.Service) int { return precedence(config, a, b) })
	winner := sources[0]
	d := &model.Definition{Key: key, Winner: winner, Sources: sources, Resolution: winner.Resolution}
	var owners []*model.Service // of d.Ports
	for _, s := range sources {
		owners = mergePorts(d, owners, s)
		if s.Resolution != winner.Resolution {
			conflict(d, winner, s, "resolution", fmt.Sprintf("%v, not %v", winner.Resolution, s.Resolution))
		} else if s.AliasOf != winner.AliasOf {
			conflict(d, winner, s, "alias", fmt.Sprintf("%q, not %q", winner.AliasOf, s.AliasOf))
		}
		if s.Visibility != winner.Visibility {
			conflict(d, winner, s, "visibility", fmt.Sprintf("%v, not %v", winner.Visibility, s.Visibility))
		}
		if s.NodeLocal != winner.NodeLocal {
			conflict(d, winner, s, "node local", fmt.Sprintf("%v, not %v", winner.NodeLocal, s.NodeLocal))
		}
		if len(s.VIPs)+len(s.External) > 0 {
			d.VIPs = append(d.VIPs, model.ClusterVIPs{Cluster: s.Registry.Cluster, VIPs: s.VIPs, External: s.External})
		}
	}
	slices.SortFunc(d.Ports, model.ComparePorts)
	slices.SortStableFunc(d.VIPs, func(a, b model.ClusterVIPs) int { return strings.Compare(string(a.Cluster), string(b.Cluster)) })
	slices.SortStableFunc(d.Conflicts, func(a, b model.Conflict) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), a.Loser.Compare(b.Loser))
	})
	return d
}

// precedence orders definitions of one service: Kubernetes before ServiceEntry,
// so that nobody takes over the name of a Service; the config cluster first,
// then the oldest, then by cluster and object name. It is a total order, so the
// winner never depends on who was heard first.
func precedence(config model.ClusterID, a, b *model.Service) int {
	return cmp.Or(
		later(a.Registry.Provider != model.Kubernetes, b.Registry.Provider != model.Kubernetes),
		later(a.Registry.Cluster != config, b.Registry.Cluster != config),
		cmp.Compare(a.Created, b.Created),
		a.Registry.Compare(b.Registry),
		strings.Compare(a.Name, b.Name),
	)
}

func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// mergePorts adds the ports of s that are new in name and number, and s to the
// owners of the ports. A port that agrees in one of the two only would be
// ambiguous: it is left out and told.
func mergePorts(d *model.Definition, owners []*model.Service, s *model.Service) []*model.Service {
	merged := d.Ports
	for _, p := range s.Ports {
		i := slices.IndexFunc(merged, func(q model.Port) bool { return q.Number == p.Number && q.Name == p.Name })
		if i < 0 {
			i = slices.IndexFunc(merged, func(q model.Port) bool { return q.Number == p.Number || q.Name == p.Name })
		}
		if i < 0 {
			d.Ports, owners = append(d.Ports, p), append(owners, s)
			continue
		}
		if q := merged[i]; q.Number != p.Number || q.Name != p.Name || q.Protocol != p.Protocol {
			conflict(d, owners[i], s, "port "+portText(p), fmt.Sprintf("%s %v, not %s %v", portText(q), q.Protocol, portText(p), p.Protocol))
		}
	}
	return owners
}

func portText(p model.Port) string { return fmt.Sprintf("%d/%s", p.Number, p.Name) }

func conflict(d *model.Definition, winner, loser *model.Service, field, detail string) {
	d.Conflicts = append(d.Conflicts, model.Conflict{Field: field, Winner: winner.Registry, Loser: loser.Registry, Detail: detail})
}
