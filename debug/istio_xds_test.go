package debug_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"tributary/debug"
	"tributary/xds"
)

// What is asked over xDS is what the page says, mistakes included.
func TestPagesOverXDS(t *testing.T) {
	s, _ := newServer(t)
	for _, name := range []string{
		"clusterz", "registryz", "endpointShardz", "endpointz", "syncz", "syncz?namespace=nobody", "syncz?pretty",
		"config_dump?proxyID=cart-1.shop", "config_dump", "config_dump?proxyID=nobody", "explain?host=cart.shop.svc.cluster.local",
	} {
		list, err := s.XDS(t.Context(), xds.DebugType, []string{name})
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %d resources, %v", name, len(list), err)
			continue
		}
		page := get(t, s, "/debug/"+name).Body.Bytes()
		if r := list[0]; r.Name != name || r.Body.TypeUrl != xds.DebugType || !bytes.Equal(r.Body.Value, page) || len(page) == 0 {
			t.Errorf("%s: over xDS it is %q:\n%s\nthe page is\n%s", name, r.Name, r.Body.Value, page)
		}
	}
}

// istioctl looks for these words.
func TestMistakesOverXDS(t *testing.T) {
	s, _ := newServer(t)
	for name, want := range map[string]string{
		"config_dump":                "You must provide a proxyID in the query string",
		"config_dump?proxyID=nobody": "Proxy not connected to this Pilot instance.",
		"adsz":                       "404 page not found: nothing is known as /debug/adsz; ",
		"pprof/profile?seconds=30":   "404 page not found",
		"pprof/":                     "404 page not found",
		"../metrics":                 "404 page not found",
		"":                           "404 page not found",
	} {
		list, err := s.XDS(t.Context(), xds.DebugType, []string{name})
		if err != nil || len(list) != 1 || !strings.HasPrefix(string(list[0].Body.Value), want) {
			t.Errorf("%q: %v, %v; want %q", name, list, err, want)
		}
	}
	for _, c := range []struct {
		url, name string
		code      codes.Code
		says      string
	}{
		{xds.DebugType, "%zz", codes.InvalidArgument, "is not the path of a debug page"},
		{xds.DebugType, "syncz?a=%zz", codes.InvalidArgument, "is not the path of a debug page"},
		{xds.DebugType + "/adsz", "x", codes.InvalidArgument, "there are istio.io/debug/syncz, istio.io/debug/config_dump and istio.io/debug"},
		{xds.ConfigDumpType, "heavy", codes.ResourceExhausted, "larger than the limit"},
	} {
		_, err := s.XDS(t.Context(), c.url, []string{c.name})
		if got := status.Convert(err); got.Code() != c.code || !strings.Contains(got.Message(), c.says) {
			t.Errorf("%s %s: %v, want %v with %q", c.url, c.name, err, c.code, c.says)
		}
	}
}

// The list is of what can be asked for, each without a further word.
func TestListOverXDS(t *testing.T) {
	s, _ := newServer(t)
	list, err := s.XDS(t.Context(), xds.DebugType, []string{"list"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal(list[0].Body.Value, &names); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"clusterz", "config_dump", "endpointShardz", "registryz", "syncz", "list"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %v", want, names)
		}
	}
	for _, name := range names {
		if list, err := s.XDS(t.Context(), xds.DebugType, []string{name}); err != nil || strings.HasPrefix(string(list[0].Body.Value), "404") {
			t.Errorf("%s is in the list, and is not there: %v", name, err)
		}
	}
}

// Every proxy with a type has its state, in the words of Envoy's client status; who
// has none is no proxy.
func TestClientStatus(t *testing.T) {
	s, _ := newServer(t)
	list, err := s.XDS(t.Context(), xds.SyncType, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range list {
		c := &statusv3.ClientConfig{}
		if err := r.Body.UnmarshalTo(c); err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, g := range c.GenericXdsConfigs {
			states = append(states, xds.ShortType(g.TypeUrl)+" "+g.ConfigStatus.String())
			if (g.LastUpdated != nil) != (g.ConfigStatus != statusv3.ConfigStatus_NOT_SENT) || (g.ErrorState.GetDetails() != "") != (g.ConfigStatus == statusv3.ConfigStatus_ERROR) {
				t.Errorf("%s: %v", r.Name, g)
			}
		}
		md := c.Node.Metadata.Fields
		got[md["CLUSTER_ID"].GetStringValue()+" "+md["NAMESPACE"].GetStringValue()+" "+md["ISTIO_VERSION"].GetStringValue()+" "+c.Node.Id] = strings.Join(states, ", ")
	}
	const id = "sidecar~10.1.1.1~"
	const rest = ".shop~shop.svc.cluster.local"
	want := map[string]string{
		"west shop 1.32.0 " + id + "cart-1" + rest:    "CDS SYNCED, EDS SYNCED, LDS SYNCED, RDS NOT_SENT",
		"east shop 1.32.0 " + id + "reviews-1" + rest: "CDS STALE, EDS SYNCED, LDS SYNCED, RDS NOT_SENT",
		"east shop 1.32.0 " + id + "reviews-2" + rest: "CDS ERROR, EDS SYNCED, LDS SYNCED, RDS NOT_SENT",
	}
	for who, states := range want {
		if got[who] != states {
			t.Errorf("%s: %s, want %s", who, got[who], states)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d proxies, want %d: %v", len(got), len(want), got)
	}
}

// The sections of a dump are those of the page, one resource each.
func TestDumpOverXDS(t *testing.T) {
	s, _ := newServer(t)
	list, err := s.XDS(t.Context(), xds.ConfigDumpType, []string{"cart-1.shop"})
	if err != nil {
		t.Fatal(err)
	}
	got, page := &adminv3.ConfigDump{}, &adminv3.ConfigDump{}
	for _, r := range list {
		got.Configs = append(got.Configs, r.Body)
	}
	if err := protojson.Unmarshal(get(t, s, "/debug/config_dump?proxyID=cart-1.shop").Body.Bytes(), page); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, page) {
		t.Errorf("over xDS it is\n%v\nthe page is\n%v", got, page)
	}
	if list, err := s.XDS(t.Context(), xds.ConfigDumpType, []string{"nobody"}); err != nil || len(list) > 0 {
		t.Errorf("of a proxy that is not connected: %v, %v", list, err)
	}
	if w := get(t, s, "/debug/config_dump?proxyID=heavy"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "larger than the limit") {
		t.Errorf("a dump beyond its limit: %d %s", w.Code, w.Body)
	}
}

func TestIdentifier(t *testing.T) {
	var id struct {
		Component, ID string
		Info          struct {
			Version string `json:"version"`
		}
	}
	if err := json.Unmarshal([]byte(debug.Identifier(`a "host"`, "1.2.3")), &id); err != nil || id.Component != "tributary" || id.ID != `a "host"` || id.Info.Version != "1.2.3" {
		t.Errorf("%+v, %v", id, err)
	}
}
