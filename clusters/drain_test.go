package clusters

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"tributary/model"
)

// Whenever the clock is looked at: nothing leaves within the window, shares only
// sink, one step at a time, none earlier than a pause after the one before.
func TestDrainSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		window := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "window")) * time.Millisecond
		d := newDrain(now, window)
		begin, last, shares := now, now, []int{int(d.share())}
		if want := begin.Add(window + 3*min(drainPause, window)); !d.ends().Equal(want) {
			t.Fatalf("ends at %v, want %v", d.ends(), want)
		}
		for !d.over() {
			now = now.Add(time.Duration(rapid.IntRange(1, 7000).Draw(t, "ms")) * time.Millisecond)
			due := d.due
			switch stepped := d.advance(now); {
			case stepped != !now.Before(due):
				t.Fatalf("at %v, due at %v: stepped is %v", now, due, stepped)
			case !stepped:
				continue
			case now.Sub(begin) < window:
				t.Fatalf("a step %v after the begin, within the window of %v", now.Sub(begin), window)
			case len(shares) > 1 && now.Sub(last) < min(drainPause, window):
				t.Fatalf("%v between two steps", now.Sub(last))
			}
			last = now
			shares = append(shares, int(d.share()))
			if d.over() {
				break
			}
			if left := time.Duration(len(drainShares)-d.steps+1) * min(drainPause, window); !d.ends().Equal(now.Add(left)) {
				t.Fatalf("after %d steps it ends at %v, in %v", d.steps, d.ends(), d.ends().Sub(now))
			}
		}
		if got := fmt.Sprint(shares); got != "[100 75 50 25 0]" || d.advance(now.Add(time.Hour)) {
			t.Fatalf("shares %v", got)
		}
	})
}

func withWindow(o *Options) { o.UndoWindow = 10 * time.Minute }

func only(t *testing.T, w *world) Status {
	t.Helper()
	synctest.Wait()
	l := w.manager.List()
	if len(l) != 1 {
		t.Fatalf("clusters %+v", l)
	}
	return l[0]
}

func TestRemovalIsUndoneWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withWindow)
		s := secret("s", 1, map[string]string{"c": goodKubeconfig("a")})
		w.api.Put("secrets", s)
		w.observe("c/1", model.NoTrouble, "")
		w.run()
		w.expect("start c/1, synced c/1")
		heard := time.Now()
		time.Sleep(time.Minute)
		w.api.Delete("secrets", s)
		w.expect("end c/1") // at once: the credential may be revoked
		c := only(t, w)
		if c.State != Draining || !strings.Contains(c.Reason, "istio-system/s is gone") || c.Removal == nil || !c.Known || c.Served != 100 ||
			time.Until(c.Removal.Begins) != 10*time.Minute || c.Removal.Ends.Sub(c.Removal.Begins) != 15*time.Second || c.SyncStatus() != "closed" {
			t.Errorf("status %+v, removal %+v", c, c.Removal)
		}
		if !c.LastEvent.Equal(heard) {
			t.Errorf("what was observed is forgotten: last event at %v", c.LastEvent)
		}
		time.Sleep(10*time.Minute - time.Second)
		w.expect("")
		// It comes back, and is read anew beside the rows that stayed.
		w.silent["c/2"] = true
		w.api.Put("secrets", s)
		w.expect("start c/2")
		if c := only(t, w); c.State != Syncing || c.Removal != nil || !c.Known || c.Endpoints != 6 {
			t.Errorf("status %+v", c)
		}
		w.observe("c/2", model.Unreachable, "no route")
		time.Sleep(time.Hour)
		if c := only(t, w); c.State != Stale || !strings.Contains(c.Reason, "no route") {
			t.Errorf("status %+v", c)
		}
		w.expect("") // rows stay, however long it takes
		w.observe("c/2", model.NoTrouble, "")
		w.manager.Synced(model.Synced{Source: source("c"), Epoch: 2})
		time.Sleep(2 * tick)
		w.expectStates("c istio-system/s synced")
		w.expect("")
		w.stop()
	})
}

func TestClusterLeavesInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		w := newWorld(t, func(o *Options) { withWindow(o); o.Metrics = registry })
		s := secret("s", 1, map[string]string{"c": goodKubeconfig("a")})
		w.api.Put("secrets", s)
		w.run()
		w.happened()
		w.api.Delete("secrets", s)
		w.expect("end c/1")
		time.Sleep(10 * time.Minute)
		for _, step := range []string{"75% c/1", "50% c/1"} {
			w.expect(step)
			time.Sleep(drainPause - time.Millisecond)
			w.expect("")
			time.Sleep(time.Millisecond)
		}
		w.expect("25% c/1")
		if c := only(t, w); c.State != Draining || c.Served != 25 || time.Until(c.Removal.Ends) != drainPause {
			t.Errorf("status %+v, removal %+v", c, c.Removal)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if got := text(families, []string{"tributary_cluster_served_ratio"}); got != `tributary_cluster_served_ratio{cluster="c"} 0.25` {
			t.Error(got)
		}
		time.Sleep(drainPause)
		w.expect("removed c/1")
		w.expectStates("")

		// It comes back in the middle of the steps: what is left stays, and all of
		// it is back once the new epoch is complete.
		w.api.Put("secrets", s)
		w.expect("start c/2, synced c/2")
		w.api.Delete("secrets", s)
		time.Sleep(10*time.Minute + drainPause)
		w.expect("end c/2, 75% c/2, 50% c/2")
		w.silent["c/3"] = true
		w.api.Put("secrets", s)
		w.expect("start c/3")
		time.Sleep(time.Minute)
		w.expect("")
		if c := only(t, w); c.State != Syncing || c.Served != 50 {
			t.Errorf("status %+v", c)
		}
		w.manager.Synced(model.Synced{Source: source("c"), Epoch: 3})
		w.expect("100% c/3")
		// And goes again before that: the steps begin anew.
		w.api.Delete("secrets", s)
		time.Sleep(10 * time.Minute)
		w.expect("end c/3, 75% c/3")
		w.stop()
		w.expect("")
	})
}

// What ends or changes a drain, or makes that there is none.
func TestDrainExceptions(t *testing.T) {
	for name, play := range map[string]func(w *world){
		"never complete": func(w *world) {
			w.silent["c/1"] = true
			w.put("s", 1, "a")
			w.run()
			w.expect("start c/1")
			w.gone("s")
			w.expect("end c/1, removed c/1")
		},
		"refused, never started": func(w *world) {
			w.api.Put("secrets", secret("s", 1, map[string]string{"c": "x: ["}))
			w.run()
			w.expectStates("c istio-system/s invalid")
			w.gone("s")
			w.expectStates("")
			w.expect("")
		},
		"another secret takes over": func(w *world) {
			w.put("s", 1, "a")
			w.run()
			w.happened()
			w.gone("s")
			w.expect("end c/1")
			w.put("t", 2, "a")
			w.expect("removed c/1, start c/2, synced c/2")
			w.expectStates("c istio-system/t synced")
		},
		"another secret waits for it": func(w *world) {
			w.put("s", 1, "a")
			w.put("t", 2, "a")
			w.run()
			w.happened()
			w.gone("s")
			w.expect("end c/1, removed c/1, start c/2, synced c/2")
		},
		"it comes back refused": func(w *world) {
			w.put("s", 1, "a")
			w.run()
			w.happened()
			w.gone("s")
			w.expect("end c/1") // seen gone, before it is there again
			w.api.Put("secrets", secret("s", 3, map[string]string{"c": "x: ["}))
			w.expect("")
			w.expectStates("c istio-system/s draining")
			if c := only(w.t, w); !strings.Contains(c.LastError, "does not parse") {
				w.t.Errorf("status %+v", c)
			}
			time.Sleep(11 * time.Minute)
			w.expect("75% c/1, 50% c/1, 25% c/1, removed c/1")
			w.expectStates("c istio-system/s invalid")
		},
		"undone, and gone again before it answers": func(w *world) {
			w.observe("c/1", model.NoTrouble, "")
			w.put("s", 1, "a")
			w.run()
			w.happened()
			heard := only(w.t, w).LastEvent
			w.gone("s")
			w.silent["c/2"] = true
			w.put("s", 1, "a")
			w.happened()
			w.gone("s")
			w.expect("end c/2")
			if c := only(w.t, w); c.State != Draining || heard.IsZero() || !c.LastEvent.Equal(heard) {
				w.t.Errorf("status %+v", c)
			}
			time.Sleep(11 * time.Minute)
			w.expect("75% c/2, 50% c/2, 25% c/2, removed c/2")
		},
		"removed during a rotation": func(w *world) {
			w.silent["c/2"] = true
			w.put("s", 1, "a")
			w.run()
			w.put("s", 1, "b")
			w.happened()
			w.gone("s")
			w.expectSet("end c/1, end c/2")
			w.expectStates("c istio-system/s draining")
			w.put("s", 1, "b")
			w.expect("start c/3, synced c/3")
		},
		"the source takes its time to end": func(w *world) {
			w.hold["c/1"] = make(chan struct{})
			w.put("s", 1, "a")
			w.run()
			w.happened()
			w.gone("s")
			w.silent["c/2"] = true
			w.put("s", 1, "a")
			w.expect("start c/2")
			if c := only(w.t, w); c.State != Syncing {
				w.t.Errorf("a source that ends tells that the cluster is %v", c.State)
			}
			w.gone("s")
			time.Sleep(20 * time.Minute)
			w.expect("end c/2, 75% c/2, 50% c/2, 25% c/2")
			close(w.hold["c/1"])
			w.expect("end c/1, removed c/2")
		},
		"a core that is slow": func(w *world) {
			w.put("s", 1, "a")
			w.run()
			w.happened()
			w.slow = make(chan struct{})
			w.gone("s")
			time.Sleep(20 * time.Minute)
			w.expect("end c/1")
			w.put("s", 1, "b") // wanted again while the first step is not taken
			w.expect("start c/2")
			close(w.slow)
			w.expectSet("100% c/2, 75% c/1, synced c/2") // epoch 1 is not heard after epoch 2
		},
		"a core that is slow, and the manager has more to say": func(w *world) {
			w.put("s", 1, "a")
			w.run()
			w.happened()
			w.slow = make(chan struct{})
			w.gone("s")
			time.Sleep(11 * time.Minute)
			w.expect("end c/1")
			w.silent["c/2"] = true
			w.put("s", 1, "b")
			w.expect("start c/2")
			w.finishes("c", 2) // all is to be served again
			w.put("t", 0, "b") // and another secret takes over
			w.expect("end c/2")
			if w.offered != 1 {
				w.t.Errorf("%d things were said at once, so that their order is lost", w.offered)
			}
			close(w.slow)
			w.expect("75% c/1, 100% c/2, removed c/2, start c/3, synced c/3")
		},
		"we end while it drains": func(w *world) {
			w.put("s", 1, "a")
			w.run()
			w.happened()
			w.slow = make(chan struct{})
			w.gone("s")
			time.Sleep(20 * time.Minute)
			w.expect("end c/1") // and the step is never taken
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, withWindow)
				play(w)
				if w.cancel != nil {
					w.stop()
				}
			})
		})
	}
}

func (w *world) put(name string, created int64, token string) {
	w.api.Put("secrets", secret(name, created, map[string]string{"c": goodKubeconfig(token)}))
}

// finishes tells that the core has all of an epoch.
func (w *world) finishes(id string, epoch uint64) {
	w.manager.Synced(model.Synced{Source: source(model.ClusterID(id)), Epoch: epoch})
}

func (w *world) gone(name string) { w.api.Delete("secrets", secret(name, 1, nil)) }

// Many credentials change at once: few clusters are read twice at a time, and
// those that never answer do not hold up the others for long.
func TestFewRotateAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		keys := func(token string) map[string]string {
			m := map[string]string{}
			for i := range 9 {
				m[fmt.Sprint("c", i)] = goodKubeconfig(token)
				w.silent[fmt.Sprintf("c%d/2", i)] = true
			}
			return m
		}
		w.api.Put("secrets", secret("s", 1, keys("a")))
		for i := range 9 {
			w.observe(fmt.Sprintf("c%d/1", i), model.NoTrouble, "")
		}
		w.run()
		if n := strings.Count(w.happened(), "start"); n != 9 {
			t.Errorf("%d of 9 clusters are read at first", n)
		}
		w.api.Put("secrets", secret("s", 1, keys("b")))
		w.expectSet("start c0/2, start c1/2, start c2/2, start c3/2")
		time.Sleep(2 * tick)
		if s := w.manager.List()[4]; s.State != Synced || !strings.Contains(s.Reason, "fewer clusters rotate") {
			t.Errorf("status %+v", s)
		}
		w.manager.Synced(model.Synced{Source: source("c1"), Epoch: 2})
		w.expectSet("end c1/1, start c4/2")
		w.expect("")
		// Three are stuck; the fourth began later.
		time.Sleep(DefaultSyncTimeout - 2*tick)
		w.expectSet("start c5/2, start c6/2, start c7/2")
		w.manager.Synced(model.Synced{Source: source("c6"), Epoch: 2})
		w.expectSet("end c6/1, start c8/2")
		w.stop()
	})
}

// Rotations, removals, undone removals and takeovers in any order leave nothing
// behind; the bubble of synctest fails if a goroutine is left.
func TestAnyHistoryOfSecrets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *Options) {
				o.Logger, o.UndoWindow = slog.New(slog.DiscardHandler), time.Duration(rapid.SampledFrom([]int{0, 1, 20}).Draw(rt, "window"))*time.Second
			})
			w.run()
			for range rapid.IntRange(1, 30).Draw(rt, "steps") {
				name := rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "secret")
				switch rapid.IntRange(0, 4).Draw(rt, "what") {
				case 0:
					w.gone(name)
				case 1:
					w.api.Put("secrets", secret(name, 1, map[string]string{"c": "x: ["}))
				default:
					w.put(name, 1, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "token"))
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 8000).Draw(rt, "ms")) * time.Millisecond)
			}
			w.gone("s")
			w.gone("t")
			time.Sleep(time.Hour)
			w.expectStates("")
			served, removed := map[string]int{}, false
			for _, e := range strings.Split(w.happened(), ", ") {
				what, epoch, _ := strings.Cut(e, " ")
				var share int
				switch n, _ := fmt.Sscanf(what, "%d%%", &share); {
				case what == "removed":
					removed, served = true, map[string]int{}
				case what == "synced":
					removed = false
				case n == 1 && removed:
					rt.Fatalf("%s after the removal", e)
				case n == 1 && share != 100 && served[epoch] != 0 && share >= served[epoch]:
					rt.Fatalf("%s after %d%%", e, served[epoch])
				case n == 1:
					served[epoch] = share
				}
			}
			if w.running != 0 {
				rt.Fatalf("%d sources run", w.running)
			}
			w.stop()
		})
	})
}
