package xds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// echo answers a debug type with what was asked, for names that begin with "big"
// with more than is sent, and refuses others of type "no".
func echo(_ context.Context, url string, names []string) ([]DebugResource, error) {
	body := []byte(fmt.Sprint(url, names))
	switch {
	case strings.HasSuffix(url, "/no"):
		return nil, grpcstatus.Error(codes.NotFound, "nothing is there")
	case len(names) > 0 && names[0] == "big":
		body = make([]byte, maxDebugBytes+1)
	}
	return []DebugResource{{Name: "answer", Body: &anypb.Any{TypeUrl: "some/type", Value: body}}}, nil
}

// question is a client that asks for debug types over either variant.
type question struct {
	t      *testing.T
	ask    func(url, name, nonce string, refused bool) error
	answer func() (text, nonce string, err error)
}

func (r *rig) question(delta bool) *question {
	r.t.Helper()
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(r.dial())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	list := func(name string) []string {
		if name == "" {
			return nil
		}
		return strings.Split(name, ",")
	}
	refusal := func(refused bool) *status.Status {
		if !refused {
			return nil
		}
		return &status.Status{Code: 3, Message: "do not like it"}
	}
	q := &question{t: r.t}
	var node *corev3.Node
	if delta {
		st, err := client.DeltaAggregatedResources(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		q.ask = func(url, name, nonce string, refused bool) error {
			return st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: url, ResourceNamesSubscribe: list(name), ResponseNonce: nonce, ErrorDetail: refusal(refused)})
		}
		q.answer = func() (string, string, error) {
			m, err := st.Recv()
			if err != nil {
				return "", "", err
			}
			return fmt.Sprint(m.TypeUrl, " ", m.ControlPlane.Identifier, " ", m.Resources[0].Name, " ", m.Resources[0].Resource.TypeUrl, " ", string(m.Resources[0].Resource.Value)), m.Nonce, nil
		}
		return q
	}
	st, err := client.StreamAggregatedResources(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	q.ask = func(url, name, nonce string, refused bool) error {
		return st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: url, ResourceNames: list(name), ResponseNonce: nonce, ErrorDetail: refusal(refused)})
	}
	q.answer = func() (string, string, error) {
		m, err := st.Recv()
		if err != nil {
			return "", "", err
		}
		return fmt.Sprint(m.TypeUrl, " ", m.ControlPlane.Identifier, " answer ", m.Resources[0].TypeUrl, " ", string(m.Resources[0].Value)), m.Nonce, nil
	}
	return q
}

// hears fails the test if the next answer is another one; it returns the nonce.
func (q *question) hears(url, names string) string {
	q.t.Helper()
	text, nonce, err := q.answer()
	if want := url + " test answer some/type " + url + names; err != nil || text != want || nonce == "" {
		q.t.Fatalf("the answer is %q nonce %q, %v; want %q", text, nonce, err, want)
	}
	return nonce
}

// A debug type is a question: answered once, also before the server is open and
// whatever nonce it carries, never pushed, and an acknowledgement or refusal is
// not answered.
func TestDebugTypes(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{debug: echo, closed: true, limits: func(l *Limits) { l.AckTimeout, l.FirstRequestTimeout = time.Second, time.Second }})
		q := r.question(delta)
		ask := func(url, name, nonce string, refused bool) {
			t.Helper()
			if err := q.ask(url, name, nonce, refused); err != nil {
				t.Fatal(err)
			}
		}
		ask(SyncType, "", "a nonce of the client's", false)
		nonce := q.hears(SyncType, "[]")
		ask(SyncType, "", nonce, false)         // acknowledged
		ask(SyncType, "", nonce, true)          // refused
		ask(DebugType, "clusterz", nonce, true) // refused, of another type
		ask(DebugType, "clusterz", "", false)
		nonce = q.hears(DebugType, "[clusterz]")
		ask(DebugType, "clusterz", nonce, false)
		ask(DebugType, "registryz", nonce, false) // another name is another question
		nonce = q.hears(DebugType, "[registryz]")
		ask(ConfigDumpType, "app-1.default", nonce, false)
		q.hears(ConfigDumpType, "[app-1.default]")

		r.server.Open()
		r.change(func(w *world) { w.defineHTTP(key("a"), 80) })
		r.connect(delta).waitCluster("a:80") // it is released
		ids := []string{}
		for _, p := range r.server.Proxies() {
			ids = append(ids, p.ID)
		}
		if !slices.Equal(ids, []string{testNode.Id}) {
			t.Errorf("proxies are %v: who only asks is none", ids)
		}
		// Neither the release nor the time reached the stream, as they reach one that
		// came later and says nothing.
		if _, _, err := r.question(delta).answer(); grpcstatus.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a stream that says nothing ends with %v", err)
		}
		ask(SyncType, "", "", false)
		q.hears(SyncType, "[]")
	})
}

func TestDebugTypesRefused(t *testing.T) {
	for _, c := range []struct {
		name, url, names string
		without          bool
		code             codes.Code
		says             string
	}{
		{name: "no name of a page", url: DebugType, code: codes.InvalidArgument, says: "must have one name, not 0"},
		{name: "two names", url: ConfigDumpType, names: "a,b", code: codes.InvalidArgument, says: "must have one name, not 2"},
		{name: "an error", url: DebugType + "/no", names: "x", code: codes.NotFound, says: "nothing is there"},
		{name: "too large", url: DebugType, names: "big", code: codes.ResourceExhausted, says: "larger than 64 MiB"},
		{name: "nobody answers", url: SyncType, without: true, code: codes.Unimplemented, says: "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			variants(t, func(t *testing.T, delta bool) {
				o := rigOptions{debug: echo}
				if c.without {
					o.debug = nil
				}
				q := newRig(t, o).question(delta)
				if err := q.ask(c.url, c.names, "", false); err != nil {
					t.Fatal(err)
				}
				_, _, err := q.answer()
				if s := grpcstatus.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), c.says) {
					t.Errorf("%v, want %v with %q", err, c.code, c.says)
				}
			})
		})
	}
}
