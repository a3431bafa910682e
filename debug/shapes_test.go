package debug_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tributary/clusters"
	"tributary/debug"
	"tributary/debug/sample"
	"tributary/shards"
	"tributary/xds"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newServer(t *testing.T) (*debug.Server, *sample.Fleet) {
	t.Helper()
	f := sample.New(noon)
	s := debug.New(f.Sources())
	s.SetClock(func() time.Time { return noon })
	return s, f
}

func get(t *testing.T, s http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:15014"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func getJSON[T any](t *testing.T, s http.Handler, path string) T {
	t.Helper()
	w := get(t, s, path)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

func TestShapes(t *testing.T) {
	s, _ := newServer(t)
	for path, file := range map[string]string{
		"/debug/clusterz":                        "clusterz.json",
		"/debug/registryz":                       "registryz.json",
		"/debug/endpointShardz":                  "endpointShardz.json",
		"/debug/syncz":                           "syncz.json",
		"/debug/list":                            "list.json",
		"/debug/config_dump?proxyID=cart-1.shop": "config_dump.json",
		"/debug/config_dump?proxyID=cart-1.shop&include_eds": "config_dump-eds.json",
		"/api/v1/clusters":                 "api-clusters.json",
		"/api/v1/services":                 "api-services.json",
		"/api/v1/endpoints":                "api-endpoints.json",
		"/api/v1/proxies":                  "api-proxies.json",
		"/api/v1/endpoints?state=shadowed": "api-endpoints-shadowed.json",
	} {
		t.Run(file, func(t *testing.T) {
			pretty := path + "?pretty"
			if strings.Contains(path, "?") {
				pretty = path + "&pretty"
			}
			w := get(t, s, pretty)
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/json" {
				t.Fatalf("%d %s", w.Code, got)
			}
			golden(t, file, w.Body.Bytes())

			var compact bytes.Buffer
			if err := json.Compact(&compact, w.Body.Bytes()); err != nil {
				t.Fatal(err)
			}
			plain := bytes.TrimSpace(get(t, s, path).Body.Bytes())
			if !bytes.Equal(plain, bytes.TrimSpace(compact.Bytes())) {
				t.Errorf("without ?pretty it says something else:\n%s", plain)
			}
		})
	}
}

func TestNothingYet(t *testing.T) {
	sources := sample.New(noon).Sources()
	sources.Snapshot = func() *shards.Snapshot { return nil }
	sources.Clusters = func() []clusters.Status { return nil }
	sources.Proxies = func() []xds.Proxy { return nil }
	s := debug.New(sources)
	for path, want := range map[string]string{
		"/debug/clusterz": "[]\n", "/debug/registryz": "[]\n", "/debug/endpointShardz": "{}\n", "/debug/syncz": "[]\n",
		"/api/v1/services": `{"revision":0,"items":[],"total":0}` + "\n", "/api/v1/endpoints": `{"revision":0,"items":[],"total":0}` + "\n",
	} {
		if w := get(t, s, path); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", path, w.Code, w.Body, want)
		}
	}
}

func TestHealth(t *testing.T) {
	s, f := newServer(t)
	if w := get(t, s, "/healthz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("healthz: %d %q", w.Code, w.Body)
	}
	for _, path := range []string{"/readyz", "/ready"} {
		if w := get(t, s, path); w.Code != http.StatusServiceUnavailable || w.Body.String() != "not ready\n" {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	w := get(t, s, "/readyz?verbose")
	golden(t, "readyz-not-ready.txt", w.Body.Bytes())
	f.SetReady(true)
	if w := get(t, s, "/readyz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
	golden(t, "readyz-ready.txt", get(t, s, "/ready?verbose").Body.Bytes())
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 45 * time.Second: "45s", 119 * time.Second: "119s", 3 * time.Minute: "3m", 200 * time.Second: "3m20s",
		12*time.Minute + 30*time.Second: "12m", 5*time.Hour + 3*time.Minute: "5h3m", 26 * time.Hour: "26h", 98 * time.Hour: "4d2h", 900 * time.Hour: "37d",
	} {
		if got := debug.Age(d); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	s, f := newServer(t)
	check := func(want ...string) {
		t.Helper()
		text := get(t, s, "/metrics").Body.String()
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no %q in\n%s", line, text)
			}
		}
	}
	check("pilot_services 5", `tributary_endpoints{served="true"} 7`, `tributary_endpoints{served="false"} 5`, "tributary_snapshot_revision 1",
		`tributary_inbox_rows{cluster="west",provider="Kubernetes"} 17`)
	f.Remove()
	check("pilot_services 4", `tributary_endpoints{served="true"} 3`, `tributary_endpoints{served="false"} 0`, "tributary_snapshot_revision 2")
	if incremental, fresh := s.Counted(); incremental != fresh {
		t.Errorf("counted %+v by difference and %+v anew", incremental, fresh)
	}
}
