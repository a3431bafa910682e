package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fakeAPI answers lists and watches as an API server does, from memory and
// without a network, so that it works in a synctest bubble.
type fakeAPI struct {
	mu      sync.Mutex
	version int
	objects map[string][]runtime.Object // by resource, such as "services"
	watches map[string][]*io.PipeWriter
	log     []string // requests: "list services", "watch pods 7"
	// refuse, if set, may answer a request with a status.
	refuse func(verb, resource string, r *http.Request) *metav1.Status
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{version: 100, objects: map[string][]runtime.Object{}, watches: map[string][]*io.PipeWriter{}}
}

func (a *fakeAPI) client(t testing.TB) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fake", Transport: a, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// RoundTrip answers one request.
func (a *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	q := r.URL.Query()
	verb := "list"
	if q.Get("watch") != "" {
		verb = "watch"
	}
	line := verb + " " + resource
	if verb == "watch" {
		line += " " + q.Get("resourceVersion")
	} else if c := q.Get("continue"); c != "" {
		line += " from " + c
	}
	a.log = append(a.log, line)
	if a.refuse != nil {
		if s := a.refuse(verb, resource, r); s != nil {
			return a.answer(r, int(s.Code), s), nil
		}
	}
	if verb == "watch" {
		body, w := io.Pipe()
		a.watches[resource] = append(a.watches[resource], w)
		go func() {
			<-r.Context().Done()
			w.CloseWithError(r.Context().Err())
		}()
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	from, _ := strconv.Atoi(q.Get("continue"))
	all := a.objects[resource]
	end := min(from+limit, len(all))
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": all[from:end]}
	switch resource {
	case "services":
		list["kind"] = "ServiceList"
	case "pods":
		list["kind"] = "PodList"
	case "secrets":
		list["kind"] = "SecretList"
	case "endpointslices":
		list["apiVersion"], list["kind"] = "discovery.k8s.io/v1", "EndpointSliceList"
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}
	if end < len(all) {
		meta.Continue = strconv.Itoa(end)
	}
	list["metadata"] = meta
	return a.answer(r, 200, list), nil
}

func (a *fakeAPI) answer(r *http.Request, code int, body any) *http.Response {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(b))),
	}
}

// event sends a watch event to all watches of a resource.
func (a *fakeAPI) event(resource, kind string, object any) {
	b, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	watches := slices.Clone(a.watches[resource])
	a.mu.Unlock()
	for _, w := range watches {
		_, _ = w.Write(append(b, '\n')) // a watch that has ended does not matter
	}
}

// drop ends all watches of a resource.
func (a *fakeAPI) drop(resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watches[resource] {
		_ = w.Close()
	}
	a.watches[resource] = nil
}

func (a *fakeAPI) set(resource string, objects ...runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.objects[resource] = objects
}

func (a *fakeAPI) requests(resource string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, l := range a.log {
		if strings.Contains(l, " "+resource) {
			out = append(out, l)
		}
	}
	return out
}

func status(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: "refused by the test"}
}

func testService(i, version int) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%04d", i), Namespace: "ns", ResourceVersion: strconv.Itoa(version)},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}
