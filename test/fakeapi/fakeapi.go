package fakeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// API is one API server.
type API struct {
	mu      sync.Mutex
	version int
	objects map[string][]runtime.Object // by resource, such as "services"
	watches map[string][]*io.PipeWriter
	log     []string // requests: "list services", "watch pods 7"
	refuse  func(verb, resource string, r *http.Request) *metav1.Status
}

// New returns an API server that holds nothing.
func New() *API {
	return &API{version: 100, objects: map[string][]runtime.Object{}, watches: map[string][]*io.PipeWriter{}}
}

// Client returns a client that asks a.
func (a *API) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fake", Transport: a, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// RoundTrip answers one request.
func (a *API) RoundTrip(r *http.Request) (*http.Response, error) {
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
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	from, _ := strconv.Atoi(q.Get("continue"))
	all := a.objects[resource]
	end := len(all)
	if limit > 0 {
		end = min(from+limit, end)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": all[from:end]}
	switch resource {
	case "services":
		list["kind"] = "ServiceList"
	case "pods":
		list["kind"] = "PodList"
	case "nodes":
		list["kind"] = "NodeList"
	case "namespaces":
		list["kind"] = "NamespaceList"
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

func (a *API) answer(r *http.Request, code int, body any) *http.Response {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(b))),
	}
}

// Refuse makes f decide about each request from now on: a status that it
// returns is the answer. nil refuses nothing.
func (a *API) Refuse(f func(verb, resource string, r *http.Request) *metav1.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = f
}

// Event sends a watch event to all watches of a resource.
func (a *API) Event(resource, kind string, object any) {
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

// Drop ends all watches of a resource.
func (a *API) Drop(resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watches[resource] {
		_ = w.Close()
	}
	a.watches[resource] = nil
}

// Set makes objects the whole of a resource. Watches are not told.
func (a *API) Set(resource string, objects ...runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.objects[resource] = objects
}

// Put adds or replaces one object and tells the watches.
func (a *API) Put(resource string, o metav1.Object) {
	a.mu.Lock()
	object := a.stamp(o)
	kind := "ADDED"
	if i := a.index(resource, o); i >= 0 {
		kind = "MODIFIED"
		a.objects[resource][i] = object
	} else {
		a.objects[resource] = append(a.objects[resource], object)
	}
	a.mu.Unlock()
	a.Event(resource, kind, object)
}

// Delete removes one object and tells the watches.
func (a *API) Delete(resource string, o metav1.Object) {
	a.mu.Lock()
	object := a.stamp(o)
	if i := a.index(resource, o); i >= 0 {
		a.objects[resource] = slices.Delete(a.objects[resource], i, i+1)
	}
	a.mu.Unlock()
	a.Event(resource, "DELETED", object)
}

// stamp returns a copy of an object with its kind and a new version.
func (a *API) stamp(o metav1.Object) runtime.Object {
	object := o.(runtime.Object).DeepCopyObject()
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	a.version++
	object.(metav1.Object).SetResourceVersion(strconv.Itoa(a.version))
	return object
}

func (a *API) index(resource string, o metav1.Object) int {
	return slices.IndexFunc(a.objects[resource], func(have runtime.Object) bool {
		m := have.(metav1.Object)
		return m.GetNamespace() == o.GetNamespace() && m.GetName() == o.GetName()
	})
}

// Requests lists the requests for a resource, such as "list services from 500"
// and "watch services 101".
func (a *API) Requests(resource string) []string {
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

// Status returns a refusal.
func Status(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: "refused by the test"}
}
