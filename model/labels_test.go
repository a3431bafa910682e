package model

import (
	"maps"
	"strings"
	"testing"
	"testing/quick"
)

// matches is what Matches means, on maps.
func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return len(selector) > 0
}

func checkLabels(t *testing.T, m, selector map[string]string) {
	t.Helper()
	l := NewLabels(m)
	if got := l.Map(); !maps.Equal(got, m) {
		t.Fatalf("packed %v, unpacked %v", m, got)
	}
	last := ""
	for k, v := range l.All() {
		if got, ok := l.Get(k); !ok || got != v || k < last {
			t.Fatalf("%q: %q, %v", k, got, ok)
		}
		last = k
	}
	if _, ok := l.Get("no such label"); ok {
		t.Fatal("Get found a label that is not there")
	}
	if l != PackedLabels(strings.Clone(l.Packed())) || l != NewLabels(maps.Clone(m)) || l.Empty() != (len(m) == 0) {
		t.Fatal("equal sets are not equal")
	}
	if got, want := NewLabels(selector).Matches(l), matches(selector, m); got != want {
		t.Fatalf("%v selects %v: %v, want %v", selector, m, got, want)
	}
	if !l.Empty() && !l.Matches(l) {
		t.Fatal("a set does not match itself")
	}
}

func TestLabelsAreMaps(t *testing.T) {
	long := strings.Repeat("x", 300) // a length of two bytes
	for _, m := range []map[string]string{nil, {"": ""}, {"a": ""}, {"": "a"}, {long: long, "b": long}, {"a": "1", "ab": "2", "b": "3"}} {
		checkLabels(t, m, m)
		checkLabels(t, m, map[string]string{"ab": "2"})
		checkLabels(t, m, map[string]string{"a": "1", "b": "3"})
		checkLabels(t, m, map[string]string{"a": "1", "c": "3"})
	}
	if err := quick.Check(func(m, selector map[string]string) bool { checkLabels(t, m, selector); return true }, nil); err != nil {
		t.Error(err)
	}
}

// FuzzLabels reads both sets from text: "k=v,k=v;k=v".
func FuzzLabels(f *testing.F) {
	f.Add("app=web,v=1;app=web")
	f.Add("=;a=b")
	f.Add(";")
	f.Fuzz(func(t *testing.T, s string) {
		parse := func(s string) map[string]string {
			m := map[string]string{}
			for _, pair := range strings.Split(s, ",") {
				if k, v, ok := strings.Cut(pair, "="); ok && k != "no such label" {
					m[k] = v
				}
			}
			return m
		}
		m, selector, _ := strings.Cut(s, ";")
		checkLabels(t, parse(m), parse(selector))
	})
}
