package xds

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// A dump holds what the client holds, byte by byte, after any number of changes.
func TestDump(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r := newRig(t, rigOptions{before: func(w *world) {
			for i := range 5 {
				w.defineHTTP(key(fmt.Sprint("s", i)), 80)
				w.place(key(fmt.Sprint("s", i)), "10.0.0.1")
			}
		}})
		p := r.connect(delta, longName("s1:80"), longName("s2:80"), longName("nobody:80"))
		p.waitCluster("s4:80")
		r.change(func(w *world) { w.remove(key("s4")); w.place(key("s1"), "10.0.0.2", "10.0.0.3") })
		r.change(func(w *world) { w.defineHTTP(key("s5"), 80, 81); w.remove(key("s2")) })
		p.waitCluster("s5:81")
		p.waitEndpoints("s1:80", "10.0.0.2", "10.0.0.3")
		p.waitEndpoints("s2:80")
		p.wait("cluster s4 to go", func() bool { return p.have[ClusterType][longName("s4:80")] == nil })

		var d *Dump
		eventually(t, "everything is acknowledged", func() bool {
			var err error
			if d, err = r.server.Dump("app-1.default", 1<<20); err != nil {
				t.Fatal(err)
			}
			for _, typ := range d.Types {
				if typ.Told != typ.Revision || typ.Revision != r.revision {
					return false
				}
			}
			return !slices.ContainsFunc(d.Proxy.Types, func(t ProxyType) bool { return !t.Synced() })
		})
		if len(d.Types) != 4 {
			t.Fatalf("%d types, want 4", len(d.Types))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, typ := range d.Types {
			have := maps.Clone(p.have[typ.URL])
			for _, res := range typ.Resources {
				if !bytes.Equal(have[res.Name], res.Body.Value) || res.Body.TypeUrl != typ.URL || res.Version == "" {
					t.Errorf("%s %s: the dump has other bytes than the client", ShortType(typ.URL), res.Name)
				}
				delete(have, res.Name)
			}
			if len(have) > 0 || len(typ.Resources) == 0 {
				t.Errorf("%s: the dump has %d resources, and lacks %v", ShortType(typ.URL), len(typ.Resources), slices.Sorted(maps.Keys(have)))
			}
		}
		if _, err := r.server.Dump("app-1.default", 100); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a dump beyond its limit: %v", err)
		}
	})
}

// A client is named by its id, else by its name and namespace, else by anything
// in its id.
func TestDumpFindsTheProxy(t *testing.T) {
	r := newRig(t, rigOptions{before: func(w *world) { w.defineHTTP(key("a"), 80) }})
	r.connect(true).waitCluster("a:80")
	r.connect(false).waitCluster("a:80") // the same node again
	for name, want := range map[string]bool{
		testNode.Id: true, "app-1.default": true, "app-1": true, "10.9.9.9": true, "app-2.default": false, "": false, "~": true,
	} {
		d, err := r.server.Dump(name, 1<<20)
		switch {
		case want && err != nil:
			t.Errorf("%q: %v", name, err)
		case want && d.Proxy.Delta:
			t.Errorf("%q gives the older stream of the node", name)
		case !want && !errors.Is(err, ErrNoProxy):
			t.Errorf("%q: %v, want that there is none", name, err)
		}
	}
	for _, c := range []struct {
		id, name string
		fits     int
	}{
		{"sidecar~10.0.0.1~a.b~b.svc.cluster.local", "a.b", 2},
		{"sidecar~10.0.0.1~aa.bb~bb.svc.cluster.local", "a.b", 1},
		{"a.b", "a.b", 3}, {"a.b", "b", 1}, {"a.b", "", 0}, {"", "a", 0}, {"a.b", "a.c", 0},
	} {
		if got := (&Proxy{ID: c.id}).fits(c.name); got != c.fits {
			t.Errorf("%s fits %q: %d, want %d", c.id, c.name, got, c.fits)
		}
	}
}

// A client that does not read is told of as busy, and nobody waits for it.
func TestDumpOfABusyStream(t *testing.T) {
	r := newRig(t, rigOptions{before: func(w *world) { w.defineHTTP(key("a"), 80) }})
	r.connect(true).waitCluster("a:80")
	str, _ := r.server.find("app-1.default")
	str.turn.Lock()
	defer str.turn.Unlock()
	if _, err := r.server.Dump("app-1.default", 1<<20); !errors.Is(err, ErrBusy) {
		t.Errorf("Dump = %v, want that the stream is busy", err)
	}
}
