package clusters

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// annotated is the secret s with the annotation.
func (w *world) annotated(value string) *corev1.Secret {
	s := secret("s", 1, map[string]string{"c": goodKubeconfig("a")})
	s.Annotations = map[string]string{RemoveAnnotation: value}
	s.APIVersion, s.Kind = "v1", "Secret"
	return s
}

// What an operator does with the annotation, and what becomes of it.
func TestRemovalAtOnce(t *testing.T) {
	for name, play := range map[string]func(w *world, annotate func(value string)){
		"while it is followed": func(w *world, annotate func(string)) {
			annotate(RemoveNow)
			w.expect("end c/1, removed c/1")
			w.expectStates("c istio-system/s removed")
			if s := only(w.t, w); s.Epoch != 0 || s.SyncStatus() != "closed" {
				w.t.Errorf("status %+v", s)
			}
			w.put("t", 2, "a") // nobody else gets the ID
			w.expect("")
			w.expectStates("c istio-system/s removed, c istio-system/t conflict")
			w.gone("t")
			w.gone("s")
			time.Sleep(time.Hour)
			w.expect("")
			w.expectStates("")
		},
		"and taken back": func(w *world, annotate func(string)) {
			annotate(RemoveNow)
			w.expect("end c/1, removed c/1")
			annotate("")
			w.expect("start c/2, synced c/2")
			w.expectStates("c istio-system/s synced")
		},
		"and gone before anybody looked": func(w *world, _ func(string)) {
			s := w.annotated(RemoveNow)
			w.api.Set("secrets") // the watch is told of the end alone
			w.api.Event("secrets", "DELETED", s)
			w.expect("end c/1, removed c/1")
			w.expectStates("")
		},
		"while it drains": func(w *world, annotate func(string)) {
			w.gone("s")
			w.expect("end c/1")
			time.Sleep(time.Minute)
			w.expectStates("c istio-system/s draining")
			annotate(RemoveNow)
			w.expect("removed c/1")
		},
		"another value means nothing": func(w *world, annotate func(string)) {
			annotate("later")
			w.expect("")
			w.expectStates("c istio-system/s synced")
		},
		"gone in a time without watch": func(w *world, annotate func(string)) {
			annotate(RemoveNow)
			w.expect("end c/1, removed c/1")
			w.api.Set("secrets")
			w.api.Drop("secrets")
			time.Sleep(time.Minute)
			w.expectStates("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, withWindow)
				w.put("s", 1, "a")
				w.run()
				w.expect("start c/1, synced c/1")
				play(w, func(value string) { w.api.Put("secrets", w.annotated(value)) })
				w.stop()
			})
		})
	}
}
