package debug

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page/*.html"))

// linkGroup is a heading of the index and what is under it.
type linkGroup struct {
	Title string
	Links []route
}

// view is what the templates are given.
type view struct {
	Version string
	Started string
	Groups  []linkGroup
}

func (s *Server) view() view {
	v := view{Version: s.sources.Version, Started: s.started.UTC().Format(time.RFC3339)}
	for _, r := range s.routes {
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Title != r.group {
			v.Groups = append(v.Groups, linkGroup{Title: r.group})
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Links = append(g.Links, r)
	}
	return v
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) { s.render(w, "index.html") }

// index lists all endpoints: as a page for a browser, as text for a terminal.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.render(w, "debug.html")
		return
	}
	var b bytes.Buffer
	for i, g := range s.view().Groups {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "%s:\n", g.Title)
		for _, l := range g.Links {
			fmt.Fprintf(&b, "  %-24s %s\n", l.Path, l.Help)
		}
	}
	fmt.Fprintln(&b, "\n?pretty indents JSON.")
	text(w, http.StatusOK, b.Bytes())
}

// list answers as Istio's does, with the names below /debug/; ?verbose adds the
// rest.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("verbose") {
		writeJSON(w, r, s.routes)
		return
	}
	names := []string{}
	for _, l := range s.routes {
		if name, ok := strings.CutPrefix(l.Path, "/debug/"); ok {
			names = append(names, name)
		}
	}
	writeJSON(w, r, names)
}

func (s *Server) render(w http.ResponseWriter, name string) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, s.view()); err != nil {
		fail(w, http.StatusInternalServerError, fmt.Errorf("rendering %s: %w", name, err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

var staticTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// static serves what the page loads.
func (s *Server) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	kind := staticTypes[path.Ext(name)]
	b, err := files.ReadFile("page/" + name)
	if kind == "" || err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b)
}
