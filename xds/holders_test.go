package xds

import (
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// holder waits until the one client that holds a resource stands as it should.
func (r *rig) holder(what, name string, is func(Holder) bool) {
	r.t.Helper()
	var last []Holder
	defer func() {
		if r.t.Failed() {
			r.t.Logf("holders of %s: %+v", name, last)
		}
	}()
	eventually(r.t, what, func() bool {
		last = r.server.Holders(EndpointType, []string{longName(name)})
		return len(last) == 1 && last[0].Proxy == testNode.Id && last[0].Name == longName(name) && is(last[0])
	})
}

func (r *rig) newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// What a client has acknowledged of a resource is told up to the newest
// revision, whether the resource changed since or not.
func TestHolders(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{before: func(w *world) {
			w.defineHTTP(key("a"), 80)
			w.place(key("a"), "10.0.0.1")
		}})
		p := r.connect(delta, longName("a:80"), longName("nobody:80"))
		p.waitEndpoints("a:80", "10.0.0.1")
		told := func(h Holder) bool { return h.Shown == r.newest() && !h.Open && h.Failure == "" && !h.Busy }
		r.holder("the first acknowledgement", "a:80", told)
		r.change(func(w *world) { w.place(key("a"), "10.0.0.1", "10.0.0.2") })
		r.holder("the acknowledgement of a change", "a:80", told)
		r.change(func(w *world) { w.defineHTTP(key("b"), 80) })
		r.holder("a revision that says nothing of it", "a:80", told)
		r.holder("a name that nobody knows", "nobody:80", told)
		if list := r.server.Holders(EndpointType, []string{longName("b:80")}); len(list) != 0 {
			t.Errorf("nobody asked for b, and it is held by %+v", list)
		}
	})
}

// A response that is open, and one that was refused, do not count.
func TestHoldersBehind(t *testing.T) {
	r := newRig(t, rigOptions{before: func(w *world) {
		w.defineHTTP(key("a"), 80)
		w.place(key("a"), "10.0.0.1")
	}})
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial()).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(q *discoveryv3.DeltaDiscoveryRequest) {
		t.Helper()
		q.Node, q.TypeUrl = testNode, EndpointType
		if err := st.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() string {
		t.Helper()
		m, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m.Nonce
	}
	send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{longName("a:80")}})
	nonce := receive()
	first := r.newest()
	r.holder("an open response", "a:80", func(h Holder) bool { return h.Open && h.Shown == 0 })
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: nonce})
	r.holder("its acknowledgement", "a:80", func(h Holder) bool { return !h.Open && h.Shown == first })
	shown := func() uint64 {
		p := r.server.Proxies()[0]
		return p.Types[slices.IndexFunc(p.Types, func(t ProxyType) bool { return t.URL == EndpointType })].Shown
	}
	if got := shown(); got != first {
		t.Errorf("the status says that revision %d was shown, want %d", got, first)
	}
	r.change(func(w *world) { w.place(key("a"), "10.0.0.2") })
	nonce = receive()
	r.holder("an open change", "a:80", func(h Holder) bool { return h.Open && h.Shown == first })
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: nonce, ErrorDetail: &status.Status{Message: "no such thing"}})
	r.holder("its refusal", "a:80", func(h Holder) bool { return h.Failure == "no such thing" && !h.Open && h.Shown == first })
	if got := shown(); got != first {
		t.Errorf("after a refusal the status says that revision %d was shown, want %d", got, first)
	}
}

// A client whose stream is in use all the time is told as such, without waiting.
func TestHoldersBusy(t *testing.T) {
	r := newRig(t, rigOptions{before: func(w *world) { w.defineHTTP(key("a"), 80) }})
	r.connect(true, longName("a:80"))
	r.holder("the client", "a:80", func(h Holder) bool { return h.Shown > 0 })
	r.server.mu.Lock()
	for str := range r.server.streams {
		str.turn.Lock()
		defer str.turn.Unlock()
	}
	r.server.mu.Unlock()
	if list := r.server.Holders(EndpointType, []string{longName("a:80")}); len(list) != 1 || !list[0].Busy || list[0].Proxy != testNode.Id {
		t.Errorf("got %+v", list)
	}
}
