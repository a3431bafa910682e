package debug

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// tree writes indented lines. What comes from a cluster is made one line of
// printable text.
type tree struct{ b bytes.Buffer }

func (t *tree) line(depth int, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = line(s)
		}
	}
	t.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

// WriteText writes e for a person: the conclusion first, then what it rests on.
func (e *Explanation) WriteText(w io.Writer) {
	var t tree
	t.line(0, "%s", e.Conclusion)
	for _, l := range e.Limits {
		t.line(0, "%s", l)
	}
	if len(e.DidYouMean) > 0 {
		t.line(0, "Did you mean %s?", strings.Join(e.DidYouMean, ", "))
	}
	for i := range e.Services {
		s := &e.Services[i]
		t.line(0, "")
		t.line(0, "%s in namespace %s (revision %d of %d)", s.Host, s.Namespace, s.Revision, e.Revision)
		if len(e.Services) > 1 {
			t.line(1, "%s", s.Conclusion)
		}
		s.write(&t)
	}
	_, _ = w.Write(t.b.Bytes()) // as any output to a terminal that is gone
}

func (s *ExplainedService) write(t *tree) {
	for _, r := range s.Rules {
		t.line(1, "%s", r)
	}
	if len(s.Aliases) > 0 {
		t.line(1, "it is also called %s", strings.Join(s.Aliases, ", "))
	}
	t.line(1, "defined by")
	for _, d := range s.Definitions {
		mark := " "
		if d.Wins {
			mark = "*"
		}
		t.line(2, "%s %s/%s %s%s: %s", mark, d.Provider, d.Cluster, d.Object, of(version(d.Version), created(d.Created)), d.Why)
	}
	for _, c := range s.Conflicts {
		t.line(2, "! %s: %s wins over %s (%s)", c.Field, c.Winner, c.Loser, c.Detail)
	}
	t.line(1, "ports")
	for _, p := range s.Ports {
		what := p.Resource
		if what == "" {
			what = "not given to clients: " + p.Why
		}
		t.line(2, "%d %s %s: %s", p.Port, cmp.Or(p.Name, "-"), p.Protocol, what)
	}
	if len(s.Ports) == 0 {
		t.line(2, "none")
	}
	s.writeClusters(t)
	s.writeEndpoints(t)
	s.writeClients(t)
}

// of joins what is not empty in brackets.
func of(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func version(v uint64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("resourceVersion %d", v)
}

func created(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "created " + stamp(t)
}

func (s *ExplainedService) writeClusters(t *tree) {
	t.line(1, "clusters")
	var without []string
	for _, c := range s.Clusters {
		if c.Known && !c.Defined && c.Endpoints == 0 && c.State == "synced" {
			without = append(without, c.Cluster)
			continue
		}
		what := c.State
		if c.Reason != "" {
			what += " (" + c.Reason + ")"
		}
		if c.Known {
			what += fmt.Sprintf(", %d of %d served", c.Served, c.Endpoints)
		}
		if c.Why != "" {
			what += "; " + c.Why
		}
		t.line(2, "%s: %s", c.Cluster, what)
	}
	if len(without) > 0 {
		t.line(2, "%s: no such Service, and without one the slices of a cluster are not used", strings.Join(without, ", "))
	}
}

func (s *ExplainedService) writeEndpoints(t *tree) {
	t.line(1, "endpoints")
	if len(s.Endpoints) == 0 {
		t.line(2, "none")
	}
	under := ""
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		head := fmt.Sprintf("%s/%s %s%s", e.Provider, e.Cluster, e.Object, of(version(e.Version)))
		if head != under {
			t.line(2, "%s", head)
			under = head
		}
		e.write(t)
	}
}

func (e *ExplainedEndpoint) write(t *tree) {
	mark, state := "-", e.State
	if e.State == stateServed {
		mark = "+"
	}
	differ := false
	for _, v := range e.Verdicts {
		differ = differ || v.State != e.State
	}
	if e.Reason != "" && !differ {
		state += ": " + e.Reason
	}
	if by := e.ShadowedBy; by != nil {
		state += fmt.Sprintf(" (%s/%s %s %s)", by.Provider, by.Cluster, by.Slice, by.Workload)
	}
	if differ {
		state += ", but not on all ports alike"
	}
	t.line(3, "%s %s %s", mark, e.Address, state)
	for _, v := range e.Verdicts {
		if !differ && len(e.Verdicts) == 1 {
			break
		}
		what := v.State
		if v.Target != 0 {
			what = fmt.Sprintf("%s -> %d, %s", v.Port, v.Target, v.State)
		} else {
			what = v.Port + ", " + what
		}
		if differ && v.Reason != "" {
			what += ": " + v.Reason
		}
		t.line(5, "port %s", what)
	}
	if !differ && len(e.Verdicts) == 1 && e.Verdicts[0].Target != 0 {
		t.line(5, "port %s -> %d", e.Verdicts[0].Port, e.Verdicts[0].Target)
	}
	if e.Workload == "" {
		t.line(5, "its slice refers to no pod")
	} else {
		kind := cmp.Or(e.Kind, "refers to Pod")
		t.line(5, "%s %s%s", kind, e.Workload, of(e.UIDText(), strings.Join(e.Conditions, ", ")))
	}
	var where []string
	for _, x := range [][2]string{{"service account", e.Account}, {"locality", e.Locality}, {"network", e.Network}, {"node", e.Node}} {
		if x[1] != "" {
			where = append(where, x[0]+" "+x[1])
		}
	}
	if e.Weight > 0 {
		where = append(where, fmt.Sprintf("weight %d", e.Weight))
	}
	if len(where) > 0 {
		t.line(5, "%s", strings.Join(where, ", "))
	}
	if len(e.Labels) > 0 {
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(e.Labels)) {
			labels = append(labels, k+"="+e.Labels[k])
		}
		t.line(5, "labels %s", strings.Join(labels, ","))
	}
}

// UIDText is the uid for a person; "" if there is none.
func (e *ExplainedEndpoint) UIDText() string {
	if e.UID == "" {
		return ""
	}
	return "uid " + e.UID
}

// shownClients is how many clients are written one by one.
const shownClients = 10

func (s *ExplainedService) writeClients(t *tree) {
	t.line(1, "clients")
	if len(s.Clients) == 0 {
		t.line(2, "none: clients balance over none of its ports")
	}
	for _, c := range s.Clients {
		switch {
		case c.Subscribed == 0 && len(c.Behind) > 0:
			t.line(2, "%s: no client is known to subscribe to it", c.Resource)
		case c.Subscribed == 0:
			t.line(2, "%s: no client subscribes to it", c.Resource)
		default:
			t.line(2, "%s: %d of %d subscribed clients have acknowledged revision %d or newer", c.Resource, c.Current, c.Subscribed, c.Revision)
		}
		write := func(list []Client, most int) {
			for i, x := range list {
				if i == most {
					t.line(3, "and others")
					break
				}
				t.line(3, "%s%s %s", x.ID, of(x.Cluster), x.standing())
			}
		}
		write(c.Behind, shownClients)
		if c.Subscribed <= shownClients {
			write(c.Latest, shownClients)
		}
	}
}

// standing tells how a client stands with a resource.
func (c *Client) standing() string {
	has := "has acknowledged nothing of it"
	if c.Revision > 0 {
		has = fmt.Sprintf("has acknowledged revision %d", c.Revision)
	}
	switch c.State {
	case "busy":
		return "is being sent to: what it subscribes to is not known"
	case "refused":
		return has + ", and refused what came after: " + c.Failure
	case "sent":
		return has + "; newer is sent and not answered yet"
	case "not sent":
		return has + "; newer is not sent yet"
	}
	return has
}
