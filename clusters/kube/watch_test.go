package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary/model"
	"tributary/test/fakeapi"
)

var testSource = model.ShardKey{Provider: model.Kubernetes, Cluster: "c1"}

// sink keeps the batches of one kind; while block is set, none is taken.
type sink struct {
	mu      sync.Mutex
	kind    model.Kind
	batches []model.Batch
	block   chan struct{}
	err     error
}

func (s *sink) out(ctx context.Context, b model.Batch) error {
	s.mu.Lock()
	block, err := s.block, s.err
	s.mu.Unlock()
	if block != nil && b.Kind == s.kind {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Kind == s.kind {
		s.batches = append(s.batches, b)
	}
	return err
}

func (s *sink) take() []model.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batches
	s.batches = nil
	return b
}

// runWatcher runs a watcher on api inside a bubble until stop is called, which
// returns what Run returned.
func runWatcher(t *testing.T, api *fakeapi.API, s *sink) (w *Watcher, stop func() error) {
	t.Helper()
	w = NewWatcher(WatchConfig{Source: testSource, Epoch: 3, Client: api.Client(t)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, s.out) }()
	synctest.Wait()
	return w, func() error {
		cancel()
		return <-ended
	}
}

func TestWatchListsInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		var objects []runtime.Object
		for i := range 1203 {
			objects = append(objects, testService(i, i+1))
		}
		api.Set("services", objects...)
		s := &sink{kind: model.KindService}
		w, stop := runWatcher(t, api, s)

		type shape struct {
			rows       int
			start, end bool
		}
		var got []shape
		for _, b := range s.take() {
			if b.Source != testSource || b.Epoch != 3 || b.Received.IsZero() {
				t.Errorf("batch of %v epoch %d, received %v", b.Source, b.Epoch, b.Received)
			}
			got = append(got, shape{b.Rows(), b.SnapshotStart, b.SnapshotEnd})
		}
		if want := []shape{{500, true, false}, {500, false, false}, {203, false, true}}; !slices.Equal(got, want) {
			t.Errorf("batches %v, want %v", got, want)
		}
		want := []string{"list services", "list services from 500", "list services from 1000", "watch services 101"}
		if r := api.Requests("services"); !slices.Equal(r, want) {
			t.Errorf("requests %q, want %q", r, want)
		}
		h := w.Health()
		for k := range model.Kinds {
			if row := h.Kinds[k]; !row.Answered || row.Trouble != model.NoTrouble || row.LastEvent.IsZero() {
				t.Errorf("health of %s: %+v", k, row)
			}
		}

		// A bookmark is a sign of life, and no batch.
		time.Sleep(time.Minute)
		api.Event("services", "BOOKMARK", &corev1.Service{
			TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "777"}})
		synctest.Wait()
		h = w.Health()
		if row := h.Kinds[model.KindService]; row.Version != "777" || !row.LastEvent.Equal(time.Now()) {
			t.Errorf("after a bookmark: %+v at %v", row, time.Now())
		}
		if b := s.take(); len(b) != 0 {
			t.Errorf("a bookmark made %d batches", len(b))
		}
		// A watch that ends is opened again where it was, without a list.
		api.Drop("services")
		synctest.Wait()
		if r := api.Requests("services"); r[len(r)-1] != "watch services 777" {
			t.Errorf("last request %q", r[len(r)-1])
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestWatchEmptyClusterIsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{kind: model.KindPod}
		_, stop := runWatcher(t, fakeapi.New(), s)
		b := s.take()
		if len(b) != 1 || !b[0].SnapshotStart || !b[0].SnapshotEnd || b[0].Rows() != 0 {
			t.Errorf("batches %+v", b)
		}
		_ = stop()
	})
}

func TestWatchBurstIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		s := &sink{kind: model.KindService}
		_, stop := runWatcher(t, api, s)
		s.take()
		block := make(chan struct{})
		s.mu.Lock()
		s.block = block
		s.mu.Unlock()

		api.Event("services", "ADDED", testService(0, 200)) // taken at once, alone
		synctest.Wait()
		for i := range 30 {
			api.Event("services", "ADDED", testService(i+1, 201+i))
		}
		// One object three times: the last word counts.
		api.Event("services", "MODIFIED", testService(30, 300))
		api.Event("services", "DELETED", testService(30, 301))
		synctest.Wait()
		close(block)
		synctest.Wait()

		batches := s.take()
		var sizes []int
		for _, b := range batches {
			sizes = append(sizes, b.Rows())
			if b.SnapshotStart || b.SnapshotEnd {
				t.Errorf("a change is part of a snapshot: %+v", b)
			}
		}
		// 30 changes and two more of the last object, 16 at a time.
		if want := []int{1, 16, 14}; !slices.Equal(sizes, want) {
			t.Errorf("sizes %v, want %v", sizes, want)
		}
		last := batches[len(batches)-1]
		if len(last.Services) != 13 || !slices.Equal(last.Deletes, []model.NamespacedName{{Namespace: "ns", Name: "s0030"}}) {
			t.Errorf("%d services, deletes %v", len(last.Services), last.Deletes)
		}
		_ = stop()
	})
}

func TestWatchGoneIsNewSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		var objects []runtime.Object
		for i := range 600 {
			objects = append(objects, testService(i, i+1))
		}
		api.Set("services", objects...)
		// The second page of the first list comes too late.
		expired := 0
		api.Refuse(func(verb, resource string, r *http.Request) *metav1.Status {
			if verb == "list" && resource == "services" && r.URL.Query().Get("continue") != "" && expired == 0 {
				expired++
				return fakeapi.Status(410, metav1.StatusReasonExpired)
			}
			return nil
		})
		s := &sink{kind: model.KindService}
		w, stop := runWatcher(t, api, s)
		var starts, ends int
		for _, b := range s.take() {
			starts, ends = starts+count(b.SnapshotStart), ends+count(b.SnapshotEnd)
		}
		if starts != 2 || ends != 1 {
			t.Errorf("%d starts and %d ends, want 2 and 1", starts, ends)
		}
		h := w.Health()
		if row := h.Kinds[model.KindService]; row.Trouble != model.NoTrouble || row.Errors != 0 {
			t.Errorf("an expired page is no trouble: %+v", row)
		}

		// The watch is told that its version is gone: the list comes again.
		api.Set("services", testService(5, 900))
		api.Event("services", "ERROR", fakeapi.Status(410, metav1.StatusReasonExpired))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b := s.take()
		if len(b) != 1 || !b[0].SnapshotStart || !b[0].SnapshotEnd || len(b[0].Services) != 1 {
			t.Errorf("after 410: %+v", b)
		}
		_ = stop()
	})
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestWatchTellsDeniedFromUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		var mu sync.Mutex
		var answer *metav1.Status
		watchOnly := false
		api.Refuse(func(verb, _ string, _ *http.Request) *metav1.Status {
			mu.Lock()
			defer mu.Unlock()
			if watchOnly && verb == "list" {
				return nil
			}
			return answer
		})
		set := func(s *metav1.Status, w bool) {
			mu.Lock()
			answer, watchOnly = s, w
			mu.Unlock()
			for _, r := range []string{"services", "pods", "endpointslices"} {
				api.Drop(r)
			}
			time.Sleep(40 * time.Second) // more than the longest back-off
			synctest.Wait()
		}
		set(fakeapi.Status(401, metav1.StatusReasonUnauthorized), false)
		s := &sink{kind: model.KindPod}
		w, stop := runWatcher(t, api, s)
		check := func(what string, want model.Trouble) {
			t.Helper()
			h := w.Health()
			_, row := h.Worst()
			if row.Trouble != want || (want == model.NoTrouble) != (row.Detail == "") {
				t.Errorf("%s: %v %q, want %v", what, row.Trouble, row.Detail, want)
			}
		}
		check("wrong token", model.Denied)
		set(fakeapi.Status(403, metav1.StatusReasonForbidden), false)
		check("no permission", model.Denied)
		set(fakeapi.Status(500, metav1.StatusReasonInternalError), false)
		check("broken server", model.Unreachable)
		if len(s.take()) != 0 {
			t.Error("a cluster that never answered said something")
		}
		set(fakeapi.Status(403, metav1.StatusReasonForbidden), true)
		check("may list but not watch", model.Denied)
		set(nil, false)
		check("well again", model.NoTrouble)
		if b := s.take(); len(b) == 0 || !b[len(b)-1].SnapshotEnd {
			t.Errorf("no snapshot after recovery: %+v", b)
		}
		_ = stop()
	})
}

func TestWatchSliceThatStopsBelongingIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		s := &sink{kind: model.KindEndpointSlice}
		_, stop := runWatcher(t, api, s)
		s.take()
		slice := &discoveryv1.EndpointSlice{
			TypeMeta:    metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
			ObjectMeta:  metav1.ObjectMeta{Name: "a", Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.1.1"}}},
		}
		api.Event("endpointslices", "ADDED", slice)
		synctest.Wait()
		slice.Labels = nil
		api.Event("endpointslices", "MODIFIED", slice)
		synctest.Wait()
		b := s.take()
		if len(b) != 2 || len(b[0].Slices) != 1 || !slices.Equal(b[1].Deletes, []model.NamespacedName{{Namespace: "ns", Name: "a"}}) {
			t.Errorf("batches %+v", b)
		}
		_ = stop()
	})
}

// What cannot be decoded is quoted by client-go; it must not reach a page or log.
func TestWatchDoesNotQuoteAnswers(t *testing.T) {
	for _, err := range []error{
		errors.New("couldn't decode: {\"env\": \"hunter2\"}"),
		apierrors.NewInternalError(errors.New("unable to decode an event: hunter2")),
		fmt.Errorf("Pod of cluster c: %w", apierrors.NewInternalError(errors.New("hunter2"))),
	} {
		var h health
		h.failed(model.KindPod, watchRequest, time.Now(), err)
		now := h.Health()
		if _, row := now.Worst(); row.Trouble != model.Unreachable || row.Detail == "" || strings.Contains(row.Detail, "hunter2") {
			t.Errorf("%v is told as %+v", err, row)
		}
	}
}

func TestWatchEndsWhenTheCoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("closed")
		w := NewWatcher(WatchConfig{Source: testSource, Client: fakeapi.New().Client(t)})
		err := w.Run(t.Context(), (&sink{err: broken}).out)
		if !errors.Is(err, broken) {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestWatchEndsWhileTheCoreBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		s := &sink{kind: model.KindService, block: make(chan struct{})}
		_, stop := runWatcher(t, api, s)
		if err := stop(); err != nil {
			t.Error(err)
		}
		// And with the queue full behind it.
		s = &sink{kind: model.KindService}
		_, stop = runWatcher(t, api, s)
		s.mu.Lock()
		s.block = make(chan struct{})
		s.mu.Unlock()
		go func() {
			for i := range 3 * queueLength {
				api.Event("services", "ADDED", testService(i, 200+i))
			}
		}()
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The bubble fails if anything of a watcher outlives its Run.
func TestWatchThousandRotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		api.Set("services", testService(1, 1))
		for i := range 1000 {
			s := &sink{kind: model.KindService}
			w := NewWatcher(WatchConfig{Source: testSource, Epoch: uint64(i), Client: api.Client(t)})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx, s.out) }()
			if i%3 != 0 { // some end before they have begun
				synctest.Wait()
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(fmt.Errorf("rotation %d: %w", i, err))
			}
			after := len(s.take())
			synctest.Wait()
			if n := len(s.take()); n != 0 {
				t.Fatalf("rotation %d: %d batches after the end, %d before", i, n, after)
			}
		}
	})
}

func testService(i, version int) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%04d", i), Namespace: "ns", ResourceVersion: strconv.Itoa(version)},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}
