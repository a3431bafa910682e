package debug

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"tributary/clusters"
	"tributary/model"
)

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, []byte("ok\n"))
}

// readyz tells whether the registry is complete enough to be believed. A probe
// needs the status only; a person asks with ?verbose.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	ready, waiting := s.sources.Ready(now)
	code, word := http.StatusOK, "ok"
	if !ready {
		code, word = http.StatusServiceUnavailable, "not ready"
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, word)
	if r.URL.Query().Has("verbose") {
		named := map[model.ClusterID]bool{}
		for _, x := range waiting {
			named[x.Cluster] = true
			fmt.Fprintf(&b, "[-] waiting for %s since %s (%s)\n", waitingFor(x), stamp(x.Since), Age(now.Sub(x.Since)))
		}
		for _, c := range s.sources.Clusters() {
			if named[c.ID] && !c.Known && !c.State.Refused() {
				continue
			}
			mark, what := standing(&c)
			fmt.Fprintf(&b, "%s cluster %s: %s since %s (%s)\n", mark, line(string(c.ID)), what, stamp(c.Since), Age(now.Sub(c.Since)))
		}
	}
	text(w, code, b.Bytes())
}

// standing tells how readiness sees a cluster that it does not wait for.
func standing(c *clusters.Status) (mark, what string) {
	what = c.State.String()
	if c.Reason != "" {
		what += " (" + line(c.Reason) + ")"
	}
	switch {
	case c.Known:
		return "[+]", what
	case c.State.Refused():
		return "[!]", "refused, not waited for: " + what
	}
	return "[!]", "given up after its timeout, not waited for: " + what
}

func waitingFor(w clusters.Waiting) string {
	if w.Cluster == "" {
		return line(w.What)
	}
	return "cluster " + line(string(w.Cluster)) + ": " + line(w.What)
}

// line makes untrusted text one line.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Age returns a duration as people say it, in at most two units: 45s, 3m20s,
// 12m, 5h3m, 4d2h.
func Age(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < 10*time.Minute:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 8*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "m")
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	case d < 8*24*time.Hour:
		return units(d, 24*time.Hour, "d", time.Hour, "h")
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}

func units(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	if rest := d % big / small; rest != 0 {
		return fmt.Sprintf("%d%s%d%s", d/big, bigName, rest, smallName)
	}
	return fmt.Sprintf("%d%s", d/big, bigName)
}

func text(w http.ResponseWriter, code int, b []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b) // a client that is gone hears nothing
}
