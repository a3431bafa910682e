package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"tributary/debug"
)

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

func clusterTable(w io.Writer, items []debug.Cluster, wide bool, now time.Time) {
	heads := []string{"CLUSTER", "STATE", "FOR", "SERVICES", "SERVED", "SOURCE"}
	if wide {
		heads = append(heads, "AGE", "EPOCH", "WORKLOADS", "SYNCED IN", "HEARD")
	}
	s := newSheet(w, append(heads, "REASON")...)
	for _, c := range items {
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
		s.row(append(cells, why)...)
	}
	s.end()
}

func serviceTable(w io.Writer, items []debug.Service, wide bool, now time.Time) {
	heads := []string{"NAMESPACE", "HOST", "PORTS", "CLUSTERS", "SERVED", "AGE"}
	if wide {
		heads = append(heads, "VIPS", "RESOLUTION", "DEFINED BY", "ACCOUNTS", "REVISION", "CONFLICTS")
	}
	s := newSheet(w, heads...)
	for _, v := range items {
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
		s.row(cells...)
	}
	s.end()
}

func endpointTable(w io.Writer, items []debug.Endpoint, wide bool, _ time.Time) {
	heads := []string{"NAMESPACE", "HOST", "CLUSTER", "ADDRESS", "PORTS", "STATE", "WORKLOAD"}
	if wide {
		heads = append(heads, "ACCOUNT", "NODE", "LOCALITY", "NETWORK", "SLICE")
	}
	s := newSheet(w, append(heads, "WHY")...)
	for _, e := range items {
		var ports []string
		for _, p := range e.Ports {
			port := strconv.Itoa(int(p.Target))
			if p.Name != "" {
				port = p.Name + ":" + port
			}
			ports = append(ports, port)
		}
		cells := []string{e.Namespace, e.Host, e.Cluster, e.Address, strings.Join(ports, ","), e.State, e.Workload}
		if wide {
			cells = append(cells, e.Account, e.Node, e.Locality, e.Network, e.Slice)
		}
		why := e.Reason
		if by := e.ShadowedBy; by != nil {
			why = fmt.Sprintf("by %s in %s/%s", cmp.Or(by.Workload, by.Slice), by.Provider, by.Cluster)
		}
		s.row(append(cells, why)...)
	}
	s.end()
}

// proxyColumns are the types that have a column; others share one.
var proxyColumns = []string{"CDS", "LDS", "EDS", "RDS"}

func proxyTable(w io.Writer, items []debug.Proxy, wide bool, now time.Time) {
	heads := append([]string{"PROXY", "CLUSTER", "CONNECTED"}, proxyColumns...)
	if wide {
		heads = append(heads, "OTHER", "ISTIO", "PROTOCOL", "PEER", "REFUSED BECAUSE")
	}
	s := newSheet(w, heads...)
	for _, p := range items {
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
		s.row(cells...)
	}
	s.end()
}

func isProxyColumn(t string) bool {
	for _, column := range proxyColumns {
		if t == column {
			return true
		}
	}
	return false
}
