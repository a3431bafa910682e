package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"tributary/debug"
)

// tableOf says how items of one kind are shown as a table.
type tableOf[T any] struct {
	heads func(wide bool) []string
	row   func(item T, wide bool, now time.Time) []string
	// key tells items apart, and stays while one changes.
	key func(item T) string
}

// moving are the columns that change by themselves, or when a server starts anew.
var moving = map[string]bool{"AGE": true, "FOR": true, "CONNECTED": true, "HEARD": true, "REVISION": true}

func (t *tableOf[T]) write(w io.Writer, items []T, wide bool, now time.Time) {
	s := newSheet(w, t.heads(wide)...)
	for _, item := range items {
		s.row(t.row(item, wide, now)...)
	}
	s.end()
}

// sortBy sorts items by a column, as people read it: numbers by what they are
// worth, ages by how long they are.
func (t *tableOf[T]) sortBy(items []T, column string, now time.Time) error {
	heads := t.heads(true)
	i := slices.IndexFunc(heads, func(h string) bool { return strings.EqualFold(h, column) })
	if i < 0 {
		return fmt.Errorf("there is no column %q to sort by (--sort-by); there are %s", column, strings.Join(heads, ", "))
	}
	cells := make(map[string]string, len(items))
	cell := func(item T) string {
		k := t.key(item)
		c, ok := cells[k]
		if !ok {
			c = t.row(item, true, now)[i]
			cells[k] = c
		}
		return c
	}
	slices.SortStableFunc(items, func(a, b T) int { return compareCells(cell(a), cell(b)) })
	return nil
}

var ageText = regexp.MustCompile(`^([0-9]+[dhms])+$`)

func compareCells(a, b string) int {
	if ageText.MatchString(a) && ageText.MatchString(b) {
		return cmp.Compare(ageSeconds(a), ageSeconds(b))
	}
	for a != "" && b != "" {
		na, ra := cutNumber(a)
		nb, rb := cutNumber(b)
		if na != "" && nb != "" {
			if c := cmp.Or(cmp.Compare(len(na), len(nb)), strings.Compare(na, nb)); c != 0 {
				return c
			}
			a, b = ra, rb
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// cutNumber returns the digits that s begins with, without leading zeros.
func cutNumber(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	digits = s[:len(s)-len(rest)]
	if short := strings.TrimLeft(digits, "0"); short != "" || digits == "" {
		return short, rest
	}
	return "0", rest
}

func ageSeconds(s string) (seconds int) {
	n := 0
	for _, c := range s {
		if unit, ok := map[rune]int{'d': 86400, 'h': 3600, 'm': 60, 's': 1}[c]; ok {
			seconds, n = seconds+n*unit, 0
			continue
		}
		n = 10*n + int(c-'0')
	}
	return seconds
}

// sheet writes aligned columns. Cells may come from a cluster, so what a
// terminal would act upon is taken out.
type sheet struct{ w *tabwriter.Writer }

func newSheet(w io.Writer, heads ...string) sheet {
	s := sheet{tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)}
	s.row(heads...)
	return s
}

func (s sheet) row(cells ...string) {
	for i, c := range cells {
		cells[i] = cmp.Or(printable(c), "-")
	}
	fmt.Fprintln(s.w, strings.Join(cells, "\t"))
}

func (s sheet) end() { _ = s.w.Flush() } // as any output to a terminal that is gone

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return debug.Age(now.Sub(t))
}

func share(served, total int) string { return fmt.Sprintf("%d/%d", served, total) }

var clusterTable = tableOf[debug.Cluster]{heads: clusterHeads, row: clusterRow, key: func(c debug.Cluster) string {
	return strings.Join([]string{c.ID, c.Secret, c.File, c.Dir}, "\n")
}}

func clusterHeads(wide bool) []string {
	heads := []string{"CLUSTER", "STATE", "FOR", "SERVICES", "SERVED", "SOURCE"}
	if wide {
		heads = append(heads, "AGE", "EPOCH", "WORKLOADS", "SYNCED IN", "HEARD")
	}
	return append(heads, "REASON")
}

func clusterRow(c debug.Cluster, wide bool, now time.Time) []string {
	source := c.Type
	if from := cmp.Or(c.Secret, c.File, c.Dir); from != "" {
		source += " " + from
	}
	cells := []string{c.ID, c.State, ago(c.Since, now), "unknown", "unknown", source}
	if c.Now != nil {
		cells[3], cells[4] = strconv.Itoa(c.Now.Services), share(c.Now.Served, c.Now.Endpoints)
	}
	if wide {
		workloads, took, heard := "unknown", "", ""
		if c.AtSync != nil {
			workloads = strconv.Itoa(c.AtSync.Workloads)
			took = time.Duration(c.AtSync.Seconds * float64(time.Second)).Round(time.Millisecond).String()
		}
		if c.LastEvent != nil {
			heard = ago(*c.LastEvent, now) + " ago"
		}
		cells = append(cells, ago(c.Added, now), strconv.FormatUint(c.Epoch, 10), workloads, took, heard)
	}
	why := cmp.Or(c.Reason, c.LastError)
	if c.Removal != nil {
		why = debug.Age(c.Removal.Ends.Sub(now)) + " left: " + why
	}
	return append(cells, why)
}

var serviceTable = tableOf[debug.Service]{heads: serviceHeads, row: serviceRow, key: func(v debug.Service) string { return v.Namespace + "/" + v.Host }}

func serviceHeads(wide bool) []string {
	heads := []string{"NAMESPACE", "HOST", "PORTS", "CLUSTERS", "SERVED", "AGE"}
	if wide {
		heads = append(heads, "VIPS", "RESOLUTION", "DEFINED BY", "ACCOUNTS", "REVISION", "CONFLICTS")
	}
	return heads
}

func serviceRow(v debug.Service, wide bool, now time.Time) []string {
	var ports, in, vips []string
	for _, p := range v.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
	}
	for _, c := range v.Clusters {
		in = append(in, c.Cluster+":"+share(c.Served, c.Endpoints))
		for _, vip := range c.VIPs {
			vips = append(vips, c.Cluster+":"+vip)
		}
	}
	cells := []string{v.Namespace, v.Host, strings.Join(ports, ","), strings.Join(in, ","), share(v.Served, v.Endpoints), ago(v.Created, now)}
	if wide {
		var conflicts []string
		for _, c := range v.Conflicts {
			conflicts = append(conflicts, fmt.Sprintf("%s (%s wins over %s)", c.Field, c.Winner, c.Loser))
		}
		cells = append(cells, strings.Join(vips, ","), v.Resolution, v.Winner, strings.Join(v.Accounts, ","),
			strconv.FormatUint(v.Revision, 10), strings.Join(conflicts, ", "))
	}
	return cells
}

var endpointTable = tableOf[debug.Endpoint]{heads: endpointHeads, row: endpointRow, key: func(e debug.Endpoint) string {
	return strings.Join([]string{e.Namespace, e.Host, e.Provider, e.Cluster, e.Slice, e.Address, endpointPorts(e)}, "\n")
}}

func endpointHeads(wide bool) []string {
	heads := []string{"NAMESPACE", "HOST", "CLUSTER", "ADDRESS", "PORTS", "STATE", "WORKLOAD"}
	if wide {
		heads = append(heads, "ACCOUNT", "NODE", "LOCALITY", "NETWORK", "SLICE")
	}
	return append(heads, "WHY")
}

func endpointPorts(e debug.Endpoint) string {
	var ports []string
	for _, p := range e.Ports {
		port := strconv.Itoa(int(p.Target))
		if p.Name != "" {
			port = p.Name + ":" + port
		}
		ports = append(ports, port)
	}
	return strings.Join(ports, ",")
}

func endpointRow(e debug.Endpoint, wide bool, _ time.Time) []string {
	cells := []string{e.Namespace, e.Host, e.Cluster, e.Address, endpointPorts(e), e.State, e.Workload}
	if wide {
		cells = append(cells, e.Account, e.Node, e.Locality, e.Network, e.Slice)
	}
	why := e.Reason
	if by := e.ShadowedBy; by != nil {
		why = fmt.Sprintf("by %s in %s/%s", cmp.Or(by.Workload, by.Slice), by.Provider, by.Cluster)
	}
	return append(cells, why)
}

// proxyColumns are the types that have a column; others share one.
var proxyColumns = []string{"CDS", "LDS", "EDS", "RDS"}

var proxyTable = tableOf[debug.Proxy]{heads: proxyHeads, row: proxyRow, key: func(p debug.Proxy) string {
	return p.ID + "\n" + p.Connected.String()
}}

func proxyHeads(wide bool) []string {
	heads := append([]string{"PROXY", "CLUSTER", "CONNECTED"}, proxyColumns...)
	if wide {
		heads = append(heads, "OTHER", "ISTIO", "PROTOCOL", "PEER", "REFUSED BECAUSE")
	}
	return heads
}

func proxyRow(p debug.Proxy, wide bool, now time.Time) []string {
	states := map[string]string{}
	var other, failures []string
	for _, t := range p.Types {
		states[t.Type] = t.State
		if !isProxyColumn(t.Type) {
			other = append(other, t.Type+" "+t.State)
		}
		if t.Failure != "" {
			failures = append(failures, t.Type+": "+t.Failure)
		}
	}
	cells := []string{p.ID, p.Cluster, ago(p.Connected, now)}
	for _, column := range proxyColumns {
		cells = append(cells, states[column])
	}
	if wide {
		cells = append(cells, strings.Join(other, ", "), p.IstioVersion, p.Protocol, p.Peer, strings.Join(failures, "; "))
	}
	return cells
}

func isProxyColumn(t string) bool {
	for _, column := range proxyColumns {
		if t == column {
			return true
		}
	}
	return false
}
