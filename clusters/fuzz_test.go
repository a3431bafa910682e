package clusters

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzSecret: every key of a secret is a claim or a refusal that names it, and
// saying the same again changes nothing.
func FuzzSecret(f *testing.F) {
	f.Add("s", "east", []byte(goodKubeconfig("a")), "west", []byte("x: ["), "now")
	f.Add("s", "", []byte{}, "east\n", []byte("{}"), "")
	f.Fuzz(func(t *testing.T, name, key1 string, data1 []byte, key2 string, data2 []byte, remove string) {
		changes := 0
		s := &secrets{views: map[string]secretView{}, changed: func() { changes++ }, counted: func(string) {}}
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
			Annotations: map[string]string{RemoveAnnotation: remove}}, Data: map[string][]byte{key1: data1, key2: data2}}
		s.set(o)
		s.set(o.DeepCopy())
		if changes != 1 {
			t.Errorf("%d changes of one secret", changes)
		}
		views, _, _ := s.snapshot()
		if len(views) != 1 || len(views[0].keys) != len(o.Data) || !slices.IsSortedFunc(views[0].keys, func(a, b claim) int { return strings.Compare(string(a.id), string(b.id)) }) {
			t.Fatalf("views %+v", views)
		}
		for _, c := range views[0].keys {
			if (c.config == nil) == (c.err == nil) || c.err != nil && !strings.Contains(c.err.Error(), string(c.id)) {
				t.Errorf("claim %q: config %v, error %v", c.id, c.config, c.err)
			}
		}
	})
}
