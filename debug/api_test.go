package debug_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"tributary/debug"
)

// pages reads all pages of a list.
func pages[T any](t *testing.T, s http.Handler, path string) (all []T) {
	t.Helper()
	next := ""
	for range 100 {
		list := getJSON[debug.List[T]](t, s, path+"&continue="+url.QueryEscape(next))
		all = append(all, list.Items...)
		if next = list.Continue; next == "" {
			return all
		}
	}
	t.Fatal("there is no last page")
	return nil
}

func samePages[T any](t *testing.T, s http.Handler, path string) {
	t.Helper()
	whole := getJSON[debug.List[T]](t, s, path).Items
	for _, limit := range []string{"1", "2", "3", "5"} {
		if got := pages[T](t, s, path+"?limit="+limit); !reflect.DeepEqual(got, whole) {
			t.Errorf("%s in pages of %s: %d items, want %d", path, limit, len(got), len(whole))
		}
	}
}

func TestPages(t *testing.T) {
	s, _ := newServer(t)
	samePages[debug.Service](t, s, "/api/v1/services")
	samePages[debug.Endpoint](t, s, "/api/v1/endpoints")
	samePages[debug.Proxy](t, s, "/api/v1/proxies")
	if list := getJSON[debug.List[debug.Service]](t, s, "/api/v1/services?limit=2"); list.Total != 5 {
		t.Errorf("total of a first page is %d, want 5", list.Total)
	}
}

// A page that ended at a service which has gone since goes on after it.
func TestPageAfterRemoval(t *testing.T) {
	s, f := newServer(t)
	first := getJSON[debug.List[debug.Endpoint]](t, s, "/api/v1/endpoints?limit=6")
	f.Remove()
	second := getJSON[debug.List[debug.Endpoint]](t, s, "/api/v1/endpoints?limit=6&continue="+first.Continue)
	if len(second.Items) != 0 || second.Continue != "" {
		t.Errorf("got %d endpoints of a service that is gone", len(second.Items))
	}
}

func TestFilters(t *testing.T) {
	s, _ := newServer(t)
	hosts := func(path string) (list []string) {
		for _, v := range getJSON[debug.List[debug.Service]](t, s, "/api/v1/services?"+path).Items {
			list = append(list, v.Name)
		}
		return list
	}
	for query, want := range map[string][]string{
		"q=REV":                            {"reviews"},
		"q=store":                          {"database"},
		"name=cart&name=reviews.shop":      {"cart", "reviews"},
		"name=rev":                         nil,
		"host=cart.shop.svc.cluster.local": {"cart"},
		"host=cart.shop.svc.cluster.local&namespace=store": nil,
		"cluster=west":    {"cart", "reviews"},
		"cluster=nowhere": nil,
	} {
		if got := hosts(query); !reflect.DeepEqual(got, want) {
			t.Errorf("services?%s: %v, want %v", query, got, want)
		}
	}
	for query, want := range map[string]int{
		"state=held": 1, "state=served": 7, "cluster=west": 5, "name=reviews&cluster=east": 7, "state=moving": 0,
		"host=reviews.shop.svc.cluster.local&namespace=shop": 9,
	} {
		if got := getJSON[debug.List[debug.Endpoint]](t, s, "/api/v1/endpoints?"+query); len(got.Items) != want {
			t.Errorf("endpoints?%s: %d, want %d", query, len(got.Items), want)
		}
	}
	for query, want := range map[string]int{"name=cart-1": 1, "name=cart-1.shop": 1, "namespace=shop": 3, "cluster=east": 2, "name=envoy-at-the-edge": 1} {
		if got := getJSON[debug.List[debug.Proxy]](t, s, "/api/v1/proxies?"+query); len(got.Items) != want || got.Total != want {
			t.Errorf("proxies?%s: %d, want %d", query, len(got.Items), want)
		}
	}
}

// What the list of services counts is what the list of endpoints shows.
func TestCountsAgree(t *testing.T) {
	s, _ := newServer(t)
	type count struct{ all, served int }
	listed := map[string]count{}
	seen := map[string]bool{}
	servedOnce := map[string]bool{}
	for _, e := range getJSON[debug.List[debug.Endpoint]](t, s, "/api/v1/endpoints").Items {
		c, row := listed[e.Host], strings.Join([]string{e.Host, e.Cluster, e.Provider, e.Slice, e.Address}, " ")
		if !seen[row] {
			c.all++
		}
		if e.State == "served" && !servedOnce[row] {
			c.served++
			servedOnce[row] = true
		}
		seen[row] = true
		listed[e.Host] = c
	}
	total := count{}
	for _, v := range getJSON[debug.List[debug.Service]](t, s, "/api/v1/services").Items {
		if got := listed[v.Host]; got != (count{v.Endpoints, v.Served}) {
			t.Errorf("%s: the endpoints are %+v, the service counts %d, %d served", v.Host, got, v.Endpoints, v.Served)
		}
		total.all += v.Endpoints
		total.served += v.Served
	}
	if tally, _ := s.Counted(); total != (count{tally.Endpoints, tally.Served}) {
		t.Errorf("the services sum up to %+v, the tally is %+v", total, tally)
	}
}

func TestBadRequests(t *testing.T) {
	s, _ := newServer(t)
	for path, want := range map[string]string{
		"/api/v1/services?namespce=x":         `unknown parameter \"namespce\"`,
		"/api/v1/services?state=held":         `unknown parameter \"state\"`,
		"/api/v1/services?limit=0":            "limit must be a number from 1",
		"/api/v1/services?limit=many":         "limit must be a number from 1",
		"/api/v1/endpoints?continue=%25%25":   "continue is not what an earlier page gave",
		"/api/v1/endpoints?continue=YQ":       "continue is not what an earlier page gave",
		"/api/v1/endpoints?continue=YQBiAC0x": "continue is not what an earlier page gave",
		"/api/v1/proxies?x=1":                 `unknown parameter`,
		"/api/v1/clusters?limit=1":            `unknown parameter`,
		"/api/v1/services?a;b":                "reading the query",
	} {
		w := get(t, s, path)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", path, w.Code, w.Body, want)
		}
	}
	if w := get(t, s, "/api/v2/services"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "/debug lists") {
		t.Errorf("an unknown path: %d %s", w.Code, w.Body)
	}
}
