package debug

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"tributary/clusters"
	"tributary/model"
	"tributary/shards"
	"tributary/xds"
)

type sink struct{ h http.Header; n int }
func (s *sink) Header() http.Header { return s.h }
func (s *sink) WriteHeader(int) {}
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }

func TestZZ(t *testing.T) {
	store := shards.NewStore(10)
	var d model.Delta
	id := &model.Identity{Cluster: "c1", Namespace: "n", ServiceAccount: "sa"}
	for i := range 2000 {
		key := model.ServiceKey{Host: fmt.Sprintf("s%04d.n.svc", i), Namespace: "n"}
		src := model.ShardKey{Provider: model.Kubernetes, Cluster: "c1"}
		svc := &model.Service{Key: key, Registry: src}
		sd := model.ServiceDelta{Key: key, Push: model.ServicePush, Definition: &model.Definition{Key: key, Winner: svc, Sources: []*model.Service{svc}, Ports: []model.Port{{Name: "a", Number: 80}, {Name: "b", Number: 81}}}}
		var sh model.Shard
		sh.Key = src
		for k := range 5 {
			sl := &model.Slice{Cluster: "c1", Object: model.NamespacedName{Namespace: "n", Name: fmt.Sprint(k)}, Ports: []model.SlicePort{{Name: "a", Number: 80}, {Name: "b", Number: 81}}}
			for e := range 100 {
				sl.Endpoints = append(sl.Endpoints, model.Endpoint{Addr: model.Addr{1, byte(i), byte(i >> 8), byte(k), byte(e)}, Flags: 3, Workload: &model.WorkloadInstance{Name: "w", Identity: id}})
			}
			sh.Slices = append(sh.Slices, sl)
		}
		sd.Shards = []model.Shard{sh}
		d.Services = append(d.Services, sd)
	}
	store.Apply(d)
	s := New(Sources{Snapshot: store.Load, Registry: prometheus.NewRegistry(), Clusters: func() []clusters.Status { return nil }, Proxies: func() []xds.Proxy { return nil }, Inbox: func() map[model.ShardKey]int { return nil }})
	for _, p := range []string{"/metrics", "/metrics", "/api/v1/services", "/api/v1/endpoints", "/api/v1/endpoints?state=held", "/debug/endpointShardz", "/api/v1/services?q=s1999"} {
		r := httptest.NewRequest("GET", "http://localhost"+p, nil)
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		t0 := time.Now()
		w := &sink{h: http.Header{}}
		s.ServeHTTP(w, r)
		took := time.Since(t0)
		runtime.ReadMemStats(&m1)
		fmt.Println(p, took, w.n, "heap sys", m1.HeapSys>>20, "alloc", (m1.TotalAlloc-m0.TotalAlloc)>>20)
	}
}
