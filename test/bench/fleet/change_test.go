package fleet

import (
	"testing"
	"time"
)

// An older change counts as arrived with a newer one of the same cluster, and
// never with one of another cluster.
func TestANewerChangeStandsForOlderOnes(t *testing.T) {
	f := New(Options{Streams: 2, Names: []string{"a"}, ClusterIDs: []string{"c0", "c1"}})
	old, other, newest := f.Expect(0, 0, "10.0.0.1"), f.Expect(0, 1, "10.0.0.2"), f.Expect(0, 0, "10.0.0.3")
	for _, c := range []*Change{old, other, newest} {
		c.Begin()
	}
	now := time.Now()
	for stream := range 2 {
		note(*f.pending[0].Load(), []byte("... 10.0.0.3 ..."), stream, now.Add(time.Duration(stream)*time.Second))
	}
	if !old.isDone() || !newest.isDone() {
		t.Error("both changes of the first cluster should have arrived")
	}
	if other.isDone() {
		t.Error("the change of the second cluster has not arrived")
	}
	if first, last, _ := newest.Times(); last-first != time.Second {
		t.Errorf("first after %v and last after %v; want a second between them", first, last)
	}
	if f.Expect(0, 0, "10.0.0.4"); len(*f.pending[0].Load()) != 2 {
		t.Error("changes that arrived everywhere are looked for still")
	}
}
