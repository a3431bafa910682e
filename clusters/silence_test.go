package clusters_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/clusters"
	"tributary/clusters/kube"
	"tributary/test/fakeapi"
	"tributary/test/lab"
	"tributary/test/tb"
)

// quick are the times of liveness for a test that does not wait for minutes.
var quick = clusters.Liveness{
	ProbeInterval: 200 * time.Millisecond, ProbeTimeout: 500 * time.Millisecond, Unanswered: 1500 * time.Millisecond, Unheard: 2 * time.Second, Stale: 4 * time.Second,
}

func proberOf(s clusters.Spec) (clusters.Prober, error) { return kube.NewProber(s.Config) }

func quickWatcherOf(s clusters.Spec) (clusters.Runner, error) {
	client, closeAll, err := kube.Dial(s.Config)
	if err != nil {
		return nil, err
	}
	return kube.NewWatcher(kube.WatchConfig{
		Source: s.Source, Epoch: s.Epoch, Client: client, Close: closeAll, ListDeadline: 700 * time.Millisecond, WatchIdle: time.Second, Count: s.Count,
	}), nil
}

// moody is an API server in which there is nothing, and which answers as its
// mood is. A change of mood ends all watches, except into a mood that keeps them.
type moody struct {
	mu      sync.Mutex
	mood    string
	changed chan struct{}
}

func (m *moody) become(mood string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood = mood
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *moody) now() (string, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mood, m.changed
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mood, changed := m.now()
	watch := r.URL.Query().Get("watch") != ""
	probe := strings.HasSuffix(r.URL.Path, "/livez")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case mood == "hang", mood == "watches hang" && watch:
		<-r.Context().Done()
		return
	case mood == "lists hang" && !watch && !probe:
		<-r.Context().Done()
		return
	case mood == "drip" && !probe:
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
		return
	case mood == "slow":
		time.Sleep(50 * time.Millisecond)
	case mood == "livez forbidden" && probe:
		answer(403, "{}")(w, r)
		return
	case strings.HasPrefix(mood, "4"), strings.HasPrefix(mood, "5"):
		code := 0
		_, _ = fmt.Sscan(mood, &code)
		answer(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"as the test says","reason":%q}`, code, map[int]string{
			401: "Unauthorized", 403: "Forbidden", 429: "TooManyRequests", 503: "ServiceUnavailable"}[code]))(w, r)
		return
	}
	if !watch {
		empty(w, r)
		return
	}
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	object := map[string]string{"services": `"apiVersion":"v1","kind":"Service"`, "pods": `"apiVersion":"v1","kind":"Pod"`, "nodes": `"apiVersion":"v1","kind":"Node"`,
		"namespaces": `"apiVersion":"v1","kind":"Namespace"`, "endpointslices": `"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice"`}[resource]
	for n := 6; ; n++ {
		if mood != "no bookmarks" {
			fmt.Fprintf(w, `{"type":"BOOKMARK","object":{%s,"metadata":{"resourceVersion":"%d"}}}`+"\n", object, n)
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// textOf is what is told of a cluster.
func textOf(s *clusters.Status) string {
	text := s.Reason
	for _, k := range s.Kinds {
		text += " " + k.LastError
	}
	return text
}

// Servers that answer badly, over real connections: what is told of each, and
// that it is well again once it answers.
func TestServersThatAnswerBadly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("table", serversThatAnswerBadly) // whose servers end before
}

func serversThatAnswerBadly(t *testing.T) {
	table := map[string]struct {
		mood   string
		state  clusters.State // that it comes to
		reason string
		then   clusters.State // and in the end, if it lasts
	}{
		"hang":          {"hang", clusters.Suspect, "no answer", clusters.Stale},
		"drip":          {"drip", clusters.Suspect, "no event or bookmark since", clusters.Stale},
		"lists-hang":    {"lists hang", clusters.Synced, "", clusters.Synced}, // watches go on
		"watches-hang":  {"watches hang", clusters.Synced, "a watch was not answered within", clusters.Synced},
		"no-bookmarks":  {"no bookmarks", clusters.Synced, "a watch brought no event or bookmark for", clusters.Synced},
		"unauthorized":  {"401", clusters.Denied, "as the test says", clusters.Stale},
		"forbidden":     {"403", clusters.Denied, "as the test says", clusters.Stale},
		"too-many":      {"429", clusters.Suspect, "no event or bookmark since", clusters.Stale},
		"unavailable":   {"503", clusters.Suspect, "it answers 503", clusters.Stale},
		"slow":          {"slow", clusters.Synced, "", clusters.Synced},
		"probe-refused": {"livez forbidden", clusters.Synced, "", clusters.Synced},
	}
	ca := newAuthority(t)
	api := fakeapi.New()
	servers := map[string]*moody{}
	data := map[string][]byte{}
	for id := range table {
		servers[id] = &moody{mood: "well", changed: make(chan struct{})}
		server := ca.serve("127.0.0.1", time.Now().Add(time.Hour), servers[id].ServeHTTP)
		data[id] = []byte(kubeconfigOf("server: '"+server+"', certificate-authority-data: "+ca.pem, "token: "+credential))
	}
	api.Put("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "s", Labels: map[string]string{"istio/multiCluster": "true"}}, Data: data})
	output := &syncBuffer{}
	registry := prometheus.NewRegistry()
	manager, err := clusters.New(clusters.Options{
		ClusterID: "config", Secrets: api.Client(t), Metrics: registry, Logger: slog.New(slog.NewTextHandler(output, nil)),
		NewRunner: quickWatcherOf, NewProber: proberOf, Liveness: quick,
	})
	if err != nil {
		t.Fatal(err)
	}
	core := &core{manager: manager, rows: map[string]bool{}, ends: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx, core.out) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if strings.Contains(output.String(), credential) {
			t.Error("a credential is told")
		}
	}()
	// reached waits until every cluster has once been as wanted.
	reached := func(what string, want func(id string, s *clusters.Status) bool) {
		t.Helper()
		seen := map[string]bool{}
		tb.Eventually(t, 60*time.Second, what, func(context.Context) error {
			var missing []string
			for _, s := range manager.List() {
				id := string(s.ID)
				if seen[id] = seen[id] || want(id, &s); !seen[id] {
					missing = append(missing, fmt.Sprintf("%s is %v because of %q, probe %+v", id, s.State, textOf(&s), s.Probe))
				}
			}
			if len(seen) != len(table) || len(missing) > 0 {
				return fmt.Errorf("of %d clusters: %s", len(seen), strings.Join(missing, "; "))
			}
			return nil
		})
	}
	reached("synced", func(_ string, s *clusters.Status) bool { return s.State == clusters.Synced })
	for id, row := range table {
		servers[id].become(row.mood)
	}
	reached("the state of the table", func(id string, s *clusters.Status) bool {
		return s.State == table[id].state && strings.Contains(textOf(s), table[id].reason)
	})
	reached("the last state", func(id string, s *clusters.Status) bool {
		return s.State == table[id].then && s.Served == 100
	})
	// By now there was time enough for a wrong turn.
	reached("the last state, still", func(id string, s *clusters.Status) bool { return s.State == table[id].then })
	for id := range table {
		servers[id].become("well")
	}
	reached("well again", func(_ string, s *clusters.Status) bool { return s.State == clusters.Synced && s.Reason == "" })
	page := metricsOf(registry)
	for _, line := range []string{
		`tributary_cluster_overdue_total{cluster="watches-hang",kind="Pod"} `, `tributary_cluster_overdue_total{cluster="no-bookmarks",kind="Pod"} `,
		`tributary_cluster_probe_failures_total{cluster="hang"} `,
	} {
		if _, rest, ok := strings.Cut(page, line); !ok || strings.HasPrefix(rest, "0\n") {
			t.Errorf("no metric %s", line)
		}
	}
}

// silentAPIServer: an API server is stopped, so that it accepts connections and
// answers nothing, and goes on; what is known of it stays, and what happens
// afterwards arrives.
func silentAPIServer(t *testing.T, config, east *lab.Cluster) {
	client, closeAll, err := kube.Dial(config.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	registry := prometheus.NewRegistry()
	limits := quick
	limits.Unheard, limits.Stale = 10*time.Minute, 10*time.Minute // bookmarks come once a minute
	manager, err := clusters.New(clusters.Options{
		ClusterID: "config", Config: config.Config(), Secrets: client, Metrics: registry, NewRunner: watcherOf, NewProber: proberOf, Liveness: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &core{manager: manager, rows: map[string]bool{}, ends: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx, c.out) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	config.CreateSecret(t, east.RemoteSecret("istio-system"))
	defer func() {
		if err := config.Client().CoreV1().Secrets("istio-system").Delete(t.Context(), east.RemoteSecret("istio-system").Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	becomes := func(want clusters.State, reason string) {
		t.Helper()
		tb.Eventually(t, 60*time.Second, "east to be "+want.String(), func(context.Context) error {
			l := manager.List()
			if len(l) != 2 || l[1].State != want || !strings.Contains(l[1].Reason, reason) || l[0].State != clusters.Synced {
				return fmt.Errorf("clusters %+v", l)
			}
			return nil
		})
	}
	becomes(clusters.Synced, "")
	east.Apply(t, objects)
	has := func(n int) {
		t.Helper()
		tb.Eventually(t, 30*time.Second, "rows of east", func(context.Context) error {
			if r := c.list("east/Service/shop/"); len(r) != n {
				return fmt.Errorf("services %q", r)
			}
			return nil
		})
	}
	has(1)
	if err := east.Pause(); err != nil {
		t.Fatal(err)
	}
	becomes(clusters.Suspect, "no answer within 500ms")
	has(1)
	if page := metricsOf(registry); !strings.Contains(page, `tributary_cluster_state{cluster="east",state="suspect"} 1`) {
		t.Errorf("metrics:\n%s", page)
	}
	if err := east.Resume(); err != nil {
		t.Fatal(err)
	}
	becomes(clusters.Synced, "")
	east.Delete(t, objects)
	has(0)
}
