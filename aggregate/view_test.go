package aggregate_test

import (
	"fmt"
	"slices"
	"strings"

	"tributary/model"
	"tributary/shards"
)

// workloadText renders all that a workload is.
func workloadText(w *model.WorkloadInstance) string {
	id := *w.Identity
	details := ""
	if w.Details != nil {
		details = fmt.Sprint(*w.Details)
	}
	return fmt.Sprintf("%s/%v/%s/%s uid=%x addr=%v account=%s labels=%v placement=%v state=%d details=%s", id.Cluster, id.Kind, id.Namespace,
		w.Name, w.UID[:4], w.Addr, id.ServiceAccount, w.Labels.Map(), *w.Placement, w.State, details)
}

// viewOf renders a snapshot as the twin does, by key.
func viewOf(s *shards.Snapshot) map[string]string {
	texts := map[string]string{}
	for svc := range s.Services() {
		text := viewText(svc)
		for _, a := range s.Aliases(svc.Key.Host) {
			text += "\nalias " + a.Key.String()
		}
		texts[svc.Key.String()] = text
	}
	return texts
}

func viewText(svc *shards.Service) string {
	d := svc.Definition
	var lines, names []string
	for _, s := range d.Sources {
		names = append(names, s.Registry.String())
	}
	for _, v := range d.VIPs {
		lines = append(lines, fmt.Sprintf("vips %s: %v, %v", v.Cluster, v.VIPs, v.External))
	}
	for _, c := range d.Conflicts {
		lines = append(lines, fmt.Sprintf("conflict %s: %v, not %v", c.Field, c.Winner, c.Loser))
	}
	lines = append(lines, fmt.Sprintf("sources %v, %v %q, shown %v, node local %v", names, d.Resolution, d.AliasOf(), d.Visibility(), d.NodeLocal()), fmt.Sprintf("accounts %v", d.Accounts))
	for _, p := range d.Ports {
		lines = append(lines, fmt.Sprintf("port %v", p))
		for c := range svc.Candidates(p) {
			if w := c.Endpoint.Workload; c.Slice.OneAddress && w != nil && !w.OneAddress() {
				lines = append(lines, fmt.Sprintf("slice %v says wrongly that its workloads have one address each", c.Slice.Object))
			}
			lines = append(lines, fmt.Sprintf("endpoint %d/%s %v %v%v:%d %s flags=%d at=%q %s", p.Number, p.Name, c.Shard, c.Endpoint.Addr, c.Additional(), c.Port,
				stateText(c), c.Endpoint.Flags&^(model.EndpointAnyUID|model.EndpointMissing|model.EndpointFinished), c.Slice.Where(c.Endpoint), whoText(c.Endpoint)))
		}
	}
	slices.Sort(lines)
	return svc.Key.String() + "\n" + strings.Join(lines, "\n")
}

func stateText(c shards.Candidate) string {
	switch {
	case c.Served():
		return "served"
	case c.Shadowed:
		return "shadowed"
	default:
		return "held"
	}
}

func whoText(e *model.Endpoint) string {
	switch {
	case e.Workload == nil:
		return "-"
	case e.Flags&model.EndpointMissing != 0:
		if e.Workload.State == model.AnotherUID {
			return "another incarnation of " + e.Workload.Name
		}
		return "missing " + e.Workload.Name
	default:
		return workloadText(e.Workload)
	}
}

// definitionText and shardsText render all that a ServiceDelta says but for
// resource versions, so that equal texts are equal meanings.
func definitionText(d *model.Definition) string {
	if d == nil {
		return "none"
	}
	var b strings.Builder
	for _, s := range append([]*model.Service{d.Winner}, d.Sources...) {
		fmt.Fprintf(&b, "%v %v %v %s %d %v %v %v %v %q %v %v %v %v\n", s.Accounts, s.Key, s.Registry, s.Name, s.Created, s.Ports, s.VIPs, s.External, s.Resolution, s.AliasOf,
			s.Selector.Map(), s.Visibility, s.NodeLocal, s.DualStack)
	}
	fmt.Fprintf(&b, "%v %v %v %v %v %v\n", d.Key, d.Ports, d.VIPs, d.Accounts, d.Conflicts, d.Resolution)
	return b.String()
}

func shardsText(list []model.Shard) string {
	var b strings.Builder
	for _, shard := range list {
		fmt.Fprintf(&b, "%v\n", shard.Key)
		for _, s := range shard.Slices {
			fmt.Fprintf(&b, "  %s %v %v\n", s.Cluster, s.Object, s.Ports)
			for i := range s.Endpoints {
				e := &s.Endpoints[i]
				fmt.Fprintf(&b, "    %v %d %d %s %s\n", e.Addr, e.Weight, e.Flags, s.Where(e), whoText(e))
				if e.Flags&model.EndpointMissing != 0 {
					fmt.Fprintf(&b, "      waits for uid %x\n", e.Workload.UID)
				}
			}
		}
	}
	return b.String()
}

// difference returns the lines that only one of two views has; "" if they are
// equal.
func difference(got, want map[string]string) string {
	var b strings.Builder
	only := func(sign string, a, o map[string]string) {
		for key, text := range a {
			if text == o[key] {
				continue
			}
			have := strings.Split(o[key], "\n")
			for _, line := range strings.Split(text, "\n") {
				if i := slices.Index(have, line); i >= 0 {
					have = slices.Delete(have, i, i+1)
					continue
				}
				fmt.Fprintf(&b, "%s %s: %s\n", sign, key, line)
			}
		}
	}
	only("core only", got, want)
	only("twin only", want, got)
	return b.String()
}
