package main

import "testing"

// Every kind of change keeps the core's view complete, in both cores.
func TestSmallFleet(t *testing.T) {
	for _, s := range shapes {
		for _, which := range []string{"core", "rows"} {
			r, err := run(s, 10000, which, options{runs: 1, rounds: 2 * chunk})
			if err != nil {
				t.Fatalf("%s, %s: %v", s.name, which, err)
			}
			if r.Loaded.Heap <= 0 || len(r.Changes) == 0 {
				t.Errorf("%s, %s: nothing was measured: %+v", s.name, which, r)
			}
		}
	}
}
