package debug_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tributary/debug"
	"tributary/debug/sample"
)

// FuzzPages: whatever path and query somebody asks for, the answer is a page or
// tells what was wrong; JSON is JSON.
func FuzzPages(f *testing.F) {
	for _, s := range []string{
		"/debug/clusterz", "/debug/endpointShardz?pretty", "/debug/explain?host=reviews&address=10.0.0.1:80&format=text", "/debug/explain?host=outbound|80||a",
		"/debug/registryz?limit=1&continue=AA", "/api/v1/endpoints?host=a&state=served&limit=99999999999999999999", "/api/v1/services?q=%FF&namespace=x", "/debug/config_dump?proxyID=x&types=eds",
		"/api/v1/services?continue=" + "YQBiADE", "/debug/edsz?a=%zz", "//debug/../healthz", "/page/..%2f..%2fetc/passwd",
	} {
		f.Add(s)
	}
	server := debug.New(sample.New(noon).Sources())
	f.Fuzz(func(t *testing.T, path string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.URL, err = r.URL.Parse(path); err != nil || r.URL.Host != "localhost" {
			return
		}
		if strings.Contains(r.URL.Path, "watch") || strings.Contains(r.URL.Path, "pprof") {
			return // they take their time
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code < 200 || w.Code == http.StatusInternalServerError {
			t.Errorf("%q: %d %s", path, w.Code, w.Body)
		}
		if body := bytes.TrimSpace(w.Body.Bytes()); strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && len(body) > 0 && !json.Valid(body) {
			t.Errorf("%q: no JSON: %s", path, body)
		}
	})
}
