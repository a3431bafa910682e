package debug_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tributary/debug"
	"tributary/debug/sample"
)

func TestMethods(t *testing.T) {
	s, _ := newServer(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "get"} {
		r := httptest.NewRequest(http.MethodGet, "/debug/clusterz", nil)
		r.Host, r.Method = "localhost", method
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodHead, "http://localhost/debug/clusterz", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestBody(t *testing.T) {
	s, _ := newServer(t)
	r := httptest.NewRequest(http.MethodGet, "http://localhost/healthz", strings.NewReader("x"))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || w.Header().Get("Connection") != "close" {
		t.Errorf("a GET with a body: %d %v", w.Code, w.Header())
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		address, host string
		want          bool
	}{
		{"127.0.0.1:15014", "127.0.0.1:15014", true},
		{"127.0.0.1:15014", "localhost:9", true},
		{"127.0.0.1:15014", "LOCALHOST", true},
		{"127.0.0.1:15014", "localhost.", true},
		{"127.0.0.1:15014", "127.8.8.8", true},
		{"127.0.0.1:15014", "[::1]:15014", true},
		{"127.0.0.1:15014", "[::1]", true},
		{"127.0.0.1:15014", "evil.example", false},
		{"127.0.0.1:15014", "evil.example:15014", false},
		{"127.0.0.1:15014", "localhost.evil.example", false},
		{"127.0.0.1:15014", "127.0.0.1.evil.example", false},
		{"127.0.0.1:15014", "10.0.0.1:15014", false},
		{"127.0.0.1:15014", "", false},
		{"registry.internal:15014", "registry.internal:15014", true},
		{"0.0.0.0:15014", "10.0.0.1:15014", true},
		{"0.0.0.0:15014", "evil.example:15014", false},
		{":15014", "evil.example", false},
	} {
		f := sample.New(noon).Sources()
		f.Address = c.address
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		debug.New(f).ServeHTTP(w, r)
		if got := w.Code == http.StatusOK; got != c.want {
			t.Errorf("listening on %s, asked for %q: %d", c.address, c.host, w.Code)
		}
	}
}

func TestHeaders(t *testing.T) {
	s, _ := newServer(t)
	for _, path := range []string{"/", "/api/v1/services", "/static/app.js", "/nothing"} {
		h := get(t, s, path).Header()
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'; ") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestPage(t *testing.T) {
	s, _ := newServer(t)
	r := httptest.NewRequest(http.MethodGet, "http://localhost/debug", nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	index := httptest.NewRecorder()
	s.ServeHTTP(index, r)
	page := get(t, s, "/").Body.String()
	text := get(t, s, "/debug").Body.String()
	for _, path := range s.Paths() {
		link := `href="` + path + `"`
		if !strings.Contains(page, link) || !strings.Contains(index.Body.String(), link) || !strings.Contains(text, "  "+path+" ") {
			t.Errorf("%s is not linked from /, or not in the index", path)
		}
		if path != "/debug/pprof/profile" && path != "/debug/pprof/trace" && path != "/api/v1/events" && path != "/readyz" && path != "/ready" && path != "/debug/config_dump" {
			if w := get(t, s, path); w.Code != http.StatusOK {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
	for _, bad := range []string{"<script>", "onclick=", "style=", "javascript:", "//cdn", "http://", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q, which its policy forbids", bad)
		}
	}
}

func TestStatic(t *testing.T) {
	s, _ := newServer(t)
	for file, kind := range map[string]string{
		"app.js": "text/javascript; charset=utf-8", "dom.js": "text/javascript; charset=utf-8", "style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		w := get(t, s, "/static/"+file)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %s", file, w.Code, w.Header().Get("Content-Type"))
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
			if strings.Contains(w.Body.String(), bad) {
				t.Errorf("%s uses %s: names of objects are not markup", file, bad)
			}
		}
	}
	for _, path := range []string{"/static/index.html", "/static/..%2fdebug.go", "/static/nothing.js", "/static/", "/page/app.js"} {
		if w := get(t, s, path); w.Code == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
}

func TestPprof(t *testing.T) {
	s, _ := newServer(t)
	for _, path := range []string{"/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		if w := get(t, s, path); w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
