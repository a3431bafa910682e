package model

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// Labels is an immutable set of labels, packed into one string: for each key in
// ascending order its length, the key, the value's length and the value. One
// string a set costs the garbage collector one object and compares as a whole.
// The zero value is the empty set.
type Labels struct{ packed string }

// NewLabels packs m.
func NewLabels(m map[string]string) Labels {
	if len(m) == 0 {
		return Labels{}
	}
	n := 0
	for k, v := range m {
		n += len(k) + len(v) + 4
	}
	b := make([]byte, 0, n)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = appendText(appendText(b, k), m[k])
	}
	return Labels{string(b)}
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func cutText(s string) (text, rest string) {
	n, size := uint64(0), 0
	for shift := uint(0); ; shift += 7 {
		c := s[size]
		size++
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	return s[size : size+int(n)], s[size+int(n):]
}

// Packed returns the packed form, which is equal for equal sets. It is what an
// interning table keeps; PackedLabels turns it back.
func (l Labels) Packed() string { return l.packed }

// PackedLabels wraps what Packed returned.
func PackedLabels(s string) Labels { return Labels{s} }

// Empty reports whether there are no labels.
func (l Labels) Empty() bool { return l.packed == "" }

// All yields the labels in ascending order of their keys.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for s := l.packed; s != ""; {
			var k, v string
			k, s = cutText(s)
			v, s = cutText(s)
			if !yield(k, v) {
				return
			}
		}
	}
}

// Get returns the value of key.
func (l Labels) Get(key string) (value string, ok bool) {
	for k, v := range l.All() {
		if k == key {
			return v, true
		}
	}
	return "", false
}

// Map returns the labels as a map of its own.
func (l Labels) Map() map[string]string {
	m := map[string]string{}
	maps.Insert(m, l.All())
	return m
}

// Matches reports whether l, read as a selector, selects a workload with these
// labels: every label of l is there with the same value. An empty selector
// selects nothing, as in Kubernetes Services and in ServiceEntries (I:1D).
func (l Labels) Matches(labels Labels) bool {
	if l.Empty() {
		return false
	}
	s := labels.packed
next:
	for wantKey, wantValue := range l.All() {
		for s != "" {
			var k, v string
			k, s = cutText(s)
			v, s = cutText(s)
			if k == wantKey {
				if v != wantValue {
					return false
				}
				continue next
			}
			if k > wantKey {
				return false
			}
		}
		return false
	}
	return true
}
