package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary/model"
	"tributary/test/fakeapi"
)

// stubborn is a way to an API server on which some requests are never answered.
type stubborn struct {
	api   *fakeapi.API
	hangs func(*http.Request) bool
}

func (s *stubborn) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.hangs(r) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return s.api.RoundTrip(r)
}

// What is never answered is given up, counted and told, and tried again; what
// the watch has not told is found by the list that follows.
func TestWhatIsNeverAnsweredIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		var hang atomic.Value
		hang.Store("")
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fake", QPS: -1, Transport: &stubborn{api, func(r *http.Request) bool {
			what := "list"
			if r.URL.Query().Get("watch") != "" {
				what = "watch"
			}
			return hang.Load() == what && strings.HasSuffix(r.URL.Path, "/services")
		}}})
		if err != nil {
			t.Fatal(err)
		}
		s := &sink{kind: model.KindService}
		w := NewWatcher(WatchConfig{Source: testSource, Client: client})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, s.out) }()
		synctest.Wait()
		bookmarks := func(n int, each time.Duration) {
			for range n {
				time.Sleep(each)
				for resource, o := range map[string]any{"services": &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "200"}}} {
					api.Event(resource, "BOOKMARK", o)
				}
				synctest.Wait()
			}
		}
		lists := func() int {
			n := 0
			for _, r := range api.Requests("services") {
				if strings.HasPrefix(r, "list") {
					n++
				}
			}
			return n
		}
		row := func() model.KindHealth { h := w.Health(); return h.Kinds[model.KindService] }
		// Bookmarks keep a watch for as long as they come.
		bookmarks(30, time.Minute)
		if row().Overdue != 0 || lists() != 1 {
			t.Errorf("%d overdue, %d lists although bookmarks came", row().Overdue, lists())
		}
		// The watch is silent: what it has not told is found.
		s.take()
		api.Set("services", testService(1, 300))
		time.Sleep(DefaultWatchIdle + 2*time.Second)
		synctest.Wait()
		if b := s.take(); lists() != 2 || len(b) != 1 || len(b[0].Services) != 1 || !b[0].SnapshotEnd {
			t.Errorf("%d lists, batches %v", lists(), b)
		}
		if r := row(); r.Overdue != 1 || !strings.Contains(r.LastError, "no event or bookmark for 2m10s") || r.Trouble != model.NoTrouble {
			t.Errorf("health %+v", r)
		}
		// The next one is not even opened, and then neither are lists answered.
		hang.Store("watch")
		api.Drop("services")
		time.Sleep(DefaultListDeadline + 2*time.Second)
		if r := row(); r.Overdue != 2 || !strings.Contains(r.LastError, "a watch was not answered within 1m0s") {
			t.Errorf("health %+v", r)
		}
		hang.Store("list")
		time.Sleep(2*DefaultListDeadline + 5*time.Second)
		if r := row(); r.Overdue < 3 || r.Trouble != model.Unreachable || !strings.Contains(r.Detail, "a page of the list was not answered in full within 1m0s") {
			t.Errorf("health %+v", r)
		}
		hang.Store("")
		time.Sleep(DefaultListDeadline + 20*time.Second)
		if r := row(); r.Trouble != model.NoTrouble {
			t.Errorf("health %+v", r)
		}
		// While the core takes nothing, it is not the watch that is silent.
		before, listed := row().Overdue, lists()
		s.mu.Lock()
		s.block = make(chan struct{})
		s.mu.Unlock()
		go func() {
			for i := range queueLength + 5 {
				api.Put("services", testService(2, 400+i))
			}
		}()
		time.Sleep(time.Hour)
		if row().Overdue != before || lists() != listed {
			t.Errorf("%d overdue, %d before; %d lists, %d before", row().Overdue, before, lists(), listed)
		}
		close(s.block)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What counts as an answer to a probe.
func TestProbe(t *testing.T) {
	var mu sync.Mutex
	code, path, credential := 0, "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		path, credential = r.URL.Path, r.Header.Get("Authorization")
		if code >= 300 && code < 400 {
			w.Header().Set("Location", "http://elsewhere.invalid")
		}
		w.WriteHeader(code)
	}))
	defer server.Close()
	p, err := NewProber(&rest.Config{Host: server.URL + "/k8s/clusters/c-1", BearerToken: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for c, want := range map[int]string{
		200: "", 403: "", 404: "", 429: "", // it is there
		401: "refuses the credential", 302: "redirects elsewhere", 307: "redirects elsewhere",
		500: "500 Internal Server Error", 502: "502", 503: "503", 504: "504",
	} {
		mu.Lock()
		code = c
		mu.Unlock()
		err := p.Probe(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || apierrors.IsUnauthorized(err) != (c == 401) {
			t.Errorf("%d: %v, want %q", c, err, want)
		}
	}
	if path != "/k8s/clusters/c-1/livez" || credential != "Bearer t" {
		t.Errorf("it asked %s with %q", path, credential)
	}
	server.Close()
	if err := p.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody is there: %v", err)
	}
}
