package debug_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tributary/debug"
	"tributary/debug/sample"
	"tributary/model"
	"tributary/shards"
)

func explain(t *testing.T, s http.Handler, query string) debug.Explanation {
	t.Helper()
	return getJSON[debug.Explanation](t, s, "/debug/explain?format=json&"+query)
}

func TestExplainText(t *testing.T) {
	s, _ := newServer(t)
	for file, query := range map[string]string{
		"explain-reviews.txt":  "host=reviews.shop",
		"explain-held.txt":     "host=reviews&address=10.1.1.3",
		"explain-database.txt": "host=database",
		"explain-empty.txt":    "host=empty.shop.svc.cluster.local",
		"explain-evil.txt":     "host=" + url.QueryEscape("evil"),
		"explain-nothing.txt":  "host=revews.shop",
		"explain-address.txt":  "host=cart&address=10.1.1.9",
		"explain-all.txt":      "host=10.1.0.10",
	} {
		w := get(t, s, "/debug/explain?"+query)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %s", query, w.Code, w.Header())
		}
		golden(t, file, w.Body.Bytes())
	}
	golden(t, "explain-reviews.json", get(t, s, "/debug/explain?host=reviews&format=json&pretty").Body.Bytes())
}

// Every way to name a service finds it, and what is nearly one is suggested.
func TestExplainFinds(t *testing.T) {
	s, _ := newServer(t)
	for host, want := range map[string]string{
		"reviews.shop.svc.cluster.local":              "host: reviews",
		"Reviews.shop.svc.cluster.local.":             "host: reviews",
		"reviews":                                     "first labels of the host: reviews",
		"reviews.shop":                                "first labels of the host: reviews",
		"reviews.shop:80":                             "first labels of the host: reviews",
		"outbound|80||reviews.shop.svc.cluster.local": "host: reviews",
		"rev":                  "beginning of the host: reviews",
		"e":                    "none: did you mean empty.shop evil.shop",
		"reviewz":              "none: did you mean reviews.shop",
		"cart.store":           "none: did you mean cart.shop",
		"cart.shop.svc.custer": "none: did you mean cart.shop",
		"views":                "none: did you mean reviews.shop",
		"zzzzzz":               "none: ",
		"10.2.0.20":            "address: cart", // a virtual address
		"10.2.2.1":             "address: cart", // an endpoint
		"[fd00::1]:5432":       "address: database",
		"10.1.1.1":             "address: reviews",
	} {
		e := explain(t, s, "host="+url.QueryEscape(host))
		var names []string
		for _, v := range e.Services {
			names = append(names, v.Name)
		}
		got := e.Match + ": " + strings.Join(names, " ")
		if len(e.DidYouMean) > 0 {
			got += "did you mean " + strings.Join(e.DidYouMean, " ")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if e := explain(t, s, "host=reviews&namespace=store"); len(e.Services) != 0 || !slices.Equal(e.DidYouMean, []string{"reviews.shop"}) {
		t.Errorf("in another namespace: %+v", e)
	}
	if e := explain(t, s, "host=cart:8080"); len(e.Services) != 0 || e.Conclusion != "cart.shop.svc.cluster.local has no port 8080" {
		t.Errorf("a port that is not there: %q", e.Conclusion)
	}
}

// What explain says agrees with the list of endpoints, row by row, and with what
// is counted.
func TestExplainAgrees(t *testing.T) {
	s, _ := newServer(t)
	for _, v := range getJSON[debug.List[debug.Service]](t, s, "/api/v1/services").Items {
		e := explain(t, s, "host="+url.QueryEscape(v.Host)).Services[0]
		if len(e.Endpoints) != v.Endpoints {
			t.Errorf("%s: %d endpoints, want %d", v.Host, len(e.Endpoints), v.Endpoints)
		}
		states := map[string][]string{}
		for _, x := range getJSON[debug.List[debug.Endpoint]](t, s, "/api/v1/endpoints?host="+url.QueryEscape(v.Host)).Items {
			states[x.Cluster+x.Provider+x.Slice+x.Address] = append(states[x.Cluster+x.Provider+x.Slice+x.Address], x.State)
		}
		for _, x := range e.Endpoints {
			if x.State == "not balanced" {
				continue // clients of a headless service get its addresses from DNS
			}
			if got := states[x.Cluster+x.Provider+x.Slice+x.Address]; !slices.Contains(got, x.State) {
				t.Errorf("%s %s is %s, and in the list %v", v.Host, x.Address, x.State, got)
			}
			if len(x.Verdicts) != len(v.Ports) {
				t.Errorf("%s %s: %d verdicts for %d ports", v.Host, x.Address, len(x.Verdicts), len(v.Ports))
			}
		}
	}
}

// oneService publishes a service with one slice and explains it.
func oneService(t *testing.T, change func(*model.Definition, *model.Slice), query ...string) debug.Explanation {
	t.Helper()
	source := model.ShardKey{Provider: model.Kubernetes, Cluster: "east"}
	key := model.ServiceKey{Host: "one.test.svc.cluster.local", Namespace: "test"}
	winner := &model.Service{Key: key, Registry: source, Name: "one", Created: 1}
	ports := []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}}
	addr, _ := model.ParseAddr("10.0.0.1")
	d := &model.Definition{Key: key, Winner: winner, Sources: []*model.Service{winner}, Ports: ports}
	slice := &model.Slice{
		Cluster: "east", Object: model.NamespacedName{Namespace: "test", Name: "one-1"}, Ports: []model.SlicePort{{Name: "http", Number: 8080}},
		Endpoints: []model.Endpoint{{Addr: addr, Flags: model.EndpointReady | model.EndpointServing}},
	}
	change(d, slice)
	store := shards.NewStore(1)
	store.Apply(model.Delta{Services: []model.ServiceDelta{{Key: key, Push: model.ServicePush, Definition: d, Shards: []model.Shard{{Key: source, Slices: []*model.Slice{slice}}}}}})
	sources := sample.New(noon).Sources()
	sources.Snapshot = store.Load
	s := debug.New(sources)
	return explain(t, s, "host=one"+strings.Join(query, ""))
}

// Every rule that decides about an endpoint is told.
func TestExplainRules(t *testing.T) {
	flags := func(f model.EndpointFlags) func(*model.Definition, *model.Slice) {
		return func(_ *model.Definition, s *model.Slice) { s.Endpoints[0].Flags = f }
	}
	const ready = model.EndpointReady | model.EndpointServing
	for name, c := range map[string]struct {
		change func(*model.Definition, *model.Slice)
		want   string // in the conclusion
		rule   string // among the rules
	}{
		"served": {flags(ready), "1 of 1 endpoint is served", ""},
		"held": {func(_ *model.Definition, s *model.Slice) {
			s.Endpoints[0].Flags, s.Endpoints[0].Workload = ready|model.EndpointMissing, &model.WorkloadInstance{Name: "p", UID: model.ParseUID("u")}
		}, "0 of 1 endpoint is served; 1 held: pod not seen", ""},
		"another incarnation": {func(_ *model.Definition, s *model.Slice) {
			s.Endpoints[0].Flags = ready | model.EndpointMissing
			s.Endpoints[0].Workload = &model.WorkloadInstance{Name: "p", UID: model.ParseUID("u"), State: model.AnotherUID}
		}, "1 held: pod has another uid", ""},
		"finished":    {flags(ready | model.EndpointFinished), "1 held: pod has ended", ""},
		"not ready":   {flags(0), "; 1 not ready", ""},
		"terminating": {flags(model.EndpointServing | model.EndpointTerminating), "; 1 terminating", ""},
		"drained":     {flags(ready | model.EndpointDrained), "; 1 drained", ""},
		"moving":      {flags(ready | model.EndpointMoving), "1 of 1 endpoint is served", ""},
		"no such port": {func(_ *model.Definition, s *model.Slice) { s.Ports[0].Name = "web" },
			"1 unmatched: port names differ", ""},
		"UDP":      {func(d *model.Definition, _ *model.Slice) { d.Ports[0].Protocol = model.UDP }, "1 not balanced: clients do not balance over UDP", ""},
		"headless": {func(d *model.Definition, _ *model.Slice) { d.Resolution = model.Passthrough }, "1 of 1 endpoint is served", "it is headless: sidecars connect to the address that was asked for, gateways and gRPC clients balance over its endpoints"},
		"alias": {func(d *model.Definition, s *model.Slice) {
			d.Resolution, d.Winner.AliasOf, s.Endpoints = model.Alias, "example.com", nil
		}, "it is another name of example.com", "it is another name of example.com"},
		"empty":       {func(_ *model.Definition, s *model.Slice) { s.Endpoints = nil }, "it has no endpoints in any cluster that was heard", ""},
		"hidden":      {func(d *model.Definition, _ *model.Slice) { d.Winner.Visibility = model.Nowhere }, "1 of 1 endpoint is served; but the service is shown to no client (exportTo)", "it is shown to no client (exportTo)"},
		"shown there": {func(d *model.Definition, _ *model.Slice) { d.Winner.Visibility = model.VisibleIn("a", "b") }, "", "it is shown to clients in a, b only (exportTo)"},
		"node local":  {func(d *model.Definition, _ *model.Slice) { d.Winner.NodeLocal = true }, "", "each client is given the endpoints on its own node only (internalTrafficPolicy: Local)"},
		"shadowed": {func(_ *model.Definition, s *model.Slice) {
			s.Endpoints = append(s.Endpoints, s.Endpoints[0])
		}, "1 of 2 endpoints are served; 1 shadowed", ""},
	} {
		e := oneService(t, c.change)
		if len(e.Services) != 1 || !strings.Contains(e.Services[0].Conclusion, c.want) {
			t.Errorf("%s: %q, want %q", name, e.Conclusion, c.want)
			continue
		}
		if c.rule != "" && !slices.Contains(e.Services[0].Rules, c.rule) {
			t.Errorf("%s: rules %q, want %q", name, e.Services[0].Rules, c.rule)
		}
		if name == "moving" && !strings.Contains(e.Services[0].Endpoints[0].Reason, "stays for at most 100ms") {
			t.Errorf("moving: %q", e.Services[0].Endpoints[0].Reason)
		}
	}
}

// What is asked for of a service is answered in one sentence that is true of that.
func TestExplainOneAddress(t *testing.T) {
	s, _ := newServer(t)
	for query, want := range map[string]string{
		"host=cart:81":                       "cart.shop.svc.cluster.local has no port 81|cart.shop has ports 80 http, 9090 grpc.",
		"host=cart&address=10.2.2.1:9":       "cart.shop.svc.cluster.local has no endpoint 10.2.2.1:9 in any cluster that was heard; nothing is known yet of north, north-east, south|cart.shop has 10.2.2.1 on ports 8080 http, 9090 grpc.",
		"host=10.2.2.1:9":                    "cart.shop.svc.cluster.local has no endpoint 10.2.2.1:9 in any cluster that was heard; nothing is known yet of north, north-east, south|cart.shop has 10.2.2.1 on ports 8080 http, 9090 grpc.",
		"host=8.8.8.8":                       "no service of a cluster that was heard has the address 8.8.8.8; nothing is known yet of north, north-east, south",
		"host=outbound|81||cart.shop":        "cart.shop.svc.cluster.local has no port 81|cart.shop has ports 80 http, 9090 grpc.",
		"host=cart:81&address=10.2.2.1:8080": "cart.shop.svc.cluster.local has no port 81|cart.shop has ports 80 http, 9090 grpc.",
	} {
		q, _ := url.ParseQuery(query)
		e := explain(t, s, q.Encode())
		got := strings.Join(append([]string{e.Conclusion}, e.Limits...), "|")
		if host := q.Get("host"); host == "8.8.8.8" {
			got, _, _ = strings.Cut(got, "|")
		}
		if got != want || len(e.Services) != 0 {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	two := func(d *model.Definition, _ *model.Slice) {
		d.Ports = append(d.Ports, model.Port{Name: "admin", Number: 81, Protocol: model.HTTP})
	}
	for address, want := range map[string]string{
		"10.0.0.1":      "10.0.0.1 is served on port 80 http, not on port 81 admin (unmatched)",
		"10.0.0.1:8080": "10.0.0.1:8080 is served on port 80 http, not on port 81 admin (unmatched)",
	} {
		if e := oneService(t, two, "&address="+address); !strings.HasSuffix(e.Conclusion, ": "+want) {
			t.Errorf("%s: %q, want %q", address, e.Conclusion, want)
		}
	}
}

// Which definition wins is told by the rule that decided.
func TestExplainPrecedence(t *testing.T) {
	source := func(p model.Provider, c model.ClusterID, created int64) *model.Service {
		return &model.Service{Registry: model.ShardKey{Provider: p, Cluster: c}, Name: "one", Created: created}
	}
	for _, c := range []struct {
		first, second *model.Service
		want          string
	}{
		{source(model.Kubernetes, "west", 9), source(model.External, "east", 1), "a Kubernetes Service comes before others"},
		{source(model.Kubernetes, "east", 9), source(model.Kubernetes, "west", 1), "east is the config cluster"},
		{source(model.Kubernetes, "west", 1), source(model.Kubernetes, "south", 2), "the older one comes first"},
		{source(model.Kubernetes, "south", 1), source(model.Kubernetes, "west", 1), "of the same age, the first by cluster"},
	} {
		e := oneService(t, func(d *model.Definition, _ *model.Slice) {
			d.Winner, d.Sources = c.first, []*model.Service{c.first, c.second}
		})
		if got := e.Services[0].Definitions; got[0].Why != c.want || !got[0].Wins || got[1].Wins || !strings.HasSuffix(got[1].Why, ": "+c.want) {
			t.Errorf("%+v, want %q", got, c.want)
		}
	}
}

func TestExplainBadRequests(t *testing.T) {
	s, _ := newServer(t)
	for query, want := range map[string]string{
		"format=json": "one host is to be given", "host=a&host=b": "one host is to be given", "hots=a": `unknown parameter "hots"`,
		"host=a&format=xml": "format is text or json",
	} {
		if w := get(t, s, "/debug/explain?"+query); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("?%s: %d %s", query, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/debug/explain", nil)
	r.Host = "localhost"
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var f debug.Failure
	if err := json.Unmarshal(w.Body.Bytes(), &f); w.Code != http.StatusBadRequest || err != nil || f.Message == "" {
		t.Errorf("as JSON: %d %s", w.Code, w.Body)
	}
}
