package kube

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/model"
	"tributary/test/fakeapi"
)

// A cluster whose credential reads no nodes and no namespaces is complete
// without them: that is remarked, and no trouble. Once it may read them they
// come; what is forbidden later leaves what was said.
func TestWatchWithoutOptionalKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		api.Set("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "z1"}}})
		var allowed atomic.Bool
		api.Refuse(func(_, resource string, _ *http.Request) *metav1.Status {
			if (resource == "nodes" || resource == "namespaces") && !allowed.Load() {
				return fakeapi.Status(403, metav1.StatusReasonForbidden)
			}
			return nil
		})
		s := &sink{kind: model.KindNode}
		w, stop := runWatcher(t, api, s)
		wait := func() {
			time.Sleep(40 * time.Second) // more than the longest back-off
			synctest.Wait()
		}
		check := func(when string, remarks int, rows ...int) {
			t.Helper()
			h := w.Health()
			if kind, worst := h.Worst(); worst.Trouble != model.NoTrouble {
				t.Errorf("%s: %v is %v: %s", when, kind, worst.Trouble, worst.Detail)
			}
			if got := h.Remarks(); len(got) != remarks || remarks > 0 && !strings.HasPrefix(got[0], "Nodes are not read: ") {
				t.Errorf("%s: remarks %q", when, got)
			}
			for k := range model.Kinds {
				if row := h.Kinds[k]; !row.Answered || time.Since(row.LastEvent) > time.Minute && k.Optional() && remarks > 0 {
					t.Errorf("%s: %v was heard last %v ago", when, k, time.Since(row.LastEvent))
				}
			}
			batches := s.take()
			if len(batches) != len(rows) {
				t.Fatalf("%s: %d batches: %+v", when, len(batches), batches)
			}
			for i, b := range batches {
				if !b.SnapshotStart || !b.SnapshotEnd || b.Rows() != rows[i] {
					t.Errorf("%s: %+v", when, b)
				}
			}
		}
		check("forbidden", 2, 0)
		wait()
		check("still forbidden", 2)
		allowed.Store(true)
		wait()
		check("allowed", 0, 1)
		allowed.Store(false)
		api.Drop("nodes")
		api.Drop("namespaces")
		wait()
		check("forbidden again", 2)
		_ = stop()
	})
}

func TestWatchNodesAndNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New()
		nodes, namespaces := &sink{kind: model.KindNode}, &sink{kind: model.KindNamespace}
		for _, s := range []*sink{nodes, namespaces} {
			_, stop := runWatcher(t, api, s)
			s.take()
			defer func() { _ = stop() }()
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{
			corev1.LabelTopologyRegion: "r1", corev1.LabelFailureDomainBetaRegion: "old", corev1.LabelFailureDomainBetaZone: "z1", subzoneLabel: "rack1"}}}
		api.Put("nodes", node)
		api.Put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"env": "prod"}}})
		synctest.Wait()
		if b := nodes.take(); len(b) != 1 || len(b[0].Nodes) != 1 || *b[0].Nodes[0] != (model.Node{Name: "n1", Locality: "r1/z1/rack1"}) {
			t.Errorf("nodes %+v", b)
		}
		want := model.NewLabels(map[string]string{"env": "prod", corev1.LabelMetadataName: "shop"})
		if b := namespaces.take(); len(b) != 1 || len(b[0].Namespaces) != 1 || *b[0].Namespaces[0] != (model.Namespace{Name: "shop", Labels: want}) {
			t.Errorf("namespaces %+v", b)
		}
		api.Delete("nodes", node)
		synctest.Wait()
		if b := nodes.take(); len(b) != 1 || len(b[0].Deletes) != 1 || b[0].Deletes[0] != (model.NamespacedName{Name: "n1"}) {
			t.Errorf("a node that went: %+v", b)
		}
	})
}
