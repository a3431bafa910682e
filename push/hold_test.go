package push

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// defaultHold is the hold of a machine with two CPUs.
func defaultHold() Hold {
	return Hold{Settle: DefaultSettle, Max: DefaultMax, Share: DefaultShare * 2, CPUs: 2}
}

// epoch is where the clock of these tests starts.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestHoldWaits(t *testing.T) {
	type change struct {
		after time.Duration // since the last push
		want  time.Duration // what it waits
	}
	for _, test := range []struct {
		name    string
		cost    time.Duration
		changes []change
	}{
		{"the first change of all waits for the settle", 0, []change{{0, 2 * ms}}},
		{"cheap pushes follow each other by the settle", 0, []change{{0, 2 * ms}, {1 * ms, 2 * ms}, {0, 2 * ms}}},
		{"after quiet a costly push does not delay the next change", 8 * ms, []change{{0, 2 * ms}, {time.Second, 2 * ms}}},
		// 4 ms at 8 % of a second are 50 ms.
		{"under load the distance is cost / share", 4 * ms, []change{{0, 2 * ms}, {10 * ms, 40 * ms}, {0, 50 * ms}, {49 * ms, 2 * ms}}},
		{"the distance ends at debounceMax", 80 * ms, []change{{0, 2 * ms}, {0, 100 * ms}, {30 * ms, 70 * ms}}},
		{"a push that costs more than debounceMax is waited for", 300 * ms, []change{{0, 2 * ms}, {0, 300 * ms}, {250 * ms, 50 * ms}}},
		{"but not for more than ten times debounceMax", time.Hour, []change{{0, 2 * ms}, {0, time.Second}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := defaultHold()
			h.Cost(test.cost)
			now := epoch
			for i, c := range test.changes {
				now = now.Add(c.after)
				h.Offer(now, 1)
				due, ok := h.Due()
				if got := due.Sub(now); !ok || got != c.want {
					t.Fatalf("change %d, %v after the last push: waits %v, want %v", i, c.after, got, c.want)
				}
				now = due
				if n, held := h.Push(now); n != 1 || held != c.want {
					t.Fatalf("change %d: pushed %d changes held for %v", i, n, held)
				}
			}
		})
	}
}

func TestHoldMergesWhatComesMeanwhile(t *testing.T) {
	h := defaultHold()
	h.Offer(epoch, 3)
	due, _ := h.Due()
	for at := epoch; at.Before(due); at = at.Add(ms / 4) {
		h.Offer(at, 1)
		if again, _ := h.Due(); again != due {
			t.Fatalf("a source that keeps changing moved the push from %v to %v", due, again)
		}
	}
	if n, held := h.Push(due); n != 3+8 || held != DefaultSettle {
		t.Errorf("pushed %d changes after %v", n, held)
	}
	if _, pending := h.Due(); pending {
		t.Error("something is still pending after the push")
	}
}

// A push of ten seconds of CPU, or a process that is busy with other things,
// must be forgotten soon.
func TestHoldForgetsCost(t *testing.T) {
	h := defaultHold()
	h.Cost(10 * time.Second)
	for range 12 {
		h.Cost(100 * time.Microsecond)
	}
	if d := h.Distance(); d > 40*ms {
		t.Errorf("after 12 cheap pushes the distance is still %v", d)
	}
}

// A process whose CPUs are all busy with something else must not make its own
// holds longer and longer.
func TestHoldOfABusyProcessStaysBounded(t *testing.T) {
	h := defaultHold()
	now := epoch
	for range 100 {
		h.Offer(now, 1)
		due, _ := h.Due()
		h.Cost(2 * due.Sub(now)) // two CPUs, all the time
		now = due
		h.Push(now)
	}
	if d := h.Distance(); d > growth*DefaultMax {
		t.Errorf("the distance has grown to %v", d)
	}
}

func TestHoldCountsGrowth(t *testing.T) {
	h := defaultHold()
	h.Cost(300 * ms)
	h.Offer(epoch, 1) // after quiet: not held
	h.Push(epoch.Add(2 * ms))
	if h.Grown() != 0 {
		t.Errorf("grown is %d after a change that was not held", h.Grown())
	}
	h.Offer(epoch.Add(3*ms), 1)
	if h.Grown() != 1 {
		t.Errorf("grown is %d after a wait beyond debounceMax", h.Grown())
	}
}

// The properties that the package promises, over random loads and settings.
func TestHoldProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		h := Hold{
			Settle: 1 + duration("settle", 20*ms), Max: 21*ms + duration("max", 200*ms),
			Share: rapid.Float64Range(0.001, 2).Draw(t, "share"), CPUs: rapid.IntRange(0, 64).Draw(t, "cpus"),
		}
		now, last := epoch, time.Time{}
		pending, offered := 0, time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(duration("pause", rapid.SampledFrom([]time.Duration{ms, 50 * ms, 5 * time.Second}).Draw(t, "scale")))
			if due, ok := h.Due(); ok && !due.After(now) {
				now = due
				n, held := h.Push(now)
				if n != pending {
					t.Fatalf("pushed %d of %d changes", n, pending)
				}
				if held != now.Sub(offered) {
					t.Fatalf("held for %v and says %v", now.Sub(offered), held)
				}
				pending, last = 0, now
				h.Cost(duration("cost", 2*time.Second))
				continue
			}
			before, was := h.Due()
			h.Offer(now, 1)
			pending++
			due, ok := h.Due()
			switch {
			case !ok:
				t.Fatal("a change is pending and not due")
			case was && due != before:
				t.Fatal("a later change moved the push")
			case was:
				continue
			}
			offered = now
			wait, quiet := due.Sub(now), last.IsZero() || now.Sub(last) >= h.Distance()
			limit := max(h.Max, 2*h.cost/time.Duration(max(1, h.CPUs)))
			switch {
			case wait > limit:
				t.Fatalf("waits %v, more than %v", wait, limit)
			case limit > growth*h.Max:
				t.Fatalf("a push of %v may be waited for %v", h.cost, limit)
			case wait < h.Settle:
				t.Fatalf("waits %v, less than the settle", wait)
			case quiet && wait != h.Settle:
				t.Fatalf("after quiet it waits %v", wait)
			case !quiet && due != last.Add(h.Distance()) && wait != h.Settle:
				t.Fatalf("under load it goes out %v after the last push, want %v", due.Sub(last), h.Distance())
			}
		}
	})
}
