package clusters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary/model"
)

// Each line is what is heard how long ago, and what follows.
func TestLivenessIsJudged(t *testing.T) {
	const never = -1
	l := DefaultLiveness()
	now := time.Unix(10_000, 0)
	for _, c := range []struct {
		name    string
		begun   int // all in seconds ago
		probe   int // never: not asked at all
		failure string
		pods    int
		nodes   int // never: there is no permission
		want    grade
		reason  string
	}{
		{"well", 900, 2, "", 2, 2, alive, ""},
		{"just begun", 0, 900, "", 900, 900, alive, ""},
		{"a slow probe", 900, 14, "", 2, 2, alive, ""},
		{"no answer", 900, 15, "refused", 2, 2, silent, "no answer since 1970-01-01T02:46:25Z: refused"},
		{"a pause of the watch", 900, 2, "", 149, 149, alive, ""},
		{"a dead watch", 900, 2, "", 150, 2, silent, "Pod: no event or bookmark since 1970-01-01T02:44:10Z"},
		{"two dead watches", 900, 2, "", 160, 200, silent, "Pod, Node: no event or bookmark since 1970-01-01T02:43:20Z"},
		{"all is dead, the probe tells it", 900, 200, "refused", 200, 200, silent, "no answer since 1970-01-01T02:43:20Z: refused"},
		{"the older one decides", 900, 20, "refused", 300, 2, expired, "Pod: no event or bookmark since 1970-01-01T02:41:40Z"},
		{"stale", 900, 300, "", 2, 2, expired, "no answer since 1970-01-01T02:41:40Z"},
		{"it answers again, its watches do not yet", 900, 2, "", 400, 400, expired, "Pod, Node: no event or bookmark since 1970-01-01T02:40:00Z"},
		{"nodes are not read", 900, 2, "", 2, never, alive, ""},
		{"nobody asks", 900, never, "", 2, 2, alive, ""},
		{"nobody asks, and nothing comes", 900, never, "", 301, 2, expired, "Pod: no event or bookmark since 1970-01-01T02:41:39Z"},
		{"it never spoke", 20, 900, "refused", 900, 900, silent, "no answer since 1970-01-01T02:46:20Z: refused"},
	} {
		ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
		var p pulse
		p.begin(ago(c.begun))
		var h model.SourceHealth
		for k := range model.Kinds {
			h.Kinds[k].LastEvent = ago(1)
		}
		h.Kinds[model.KindPod].LastEvent, h.Kinds[model.KindNode].LastEvent = ago(c.pods), ago(c.nodes)
		if c.nodes == never {
			h.Kinds[model.KindNode] = model.KindHealth{Remark: "Nodes are not read"}
		}
		p.take(&h, answer{probed: c.probe != never, answered: ago(max(0, c.probe)), failure: c.failure})
		if g, reason := l.judge(now, &p); g != c.want || reason != c.reason {
			t.Errorf("%s: %v because of %q, want %v because of %q", c.name, g, reason, c.want, c.reason)
		}
	}
}

// What a source says and how silent its cluster is become one event.
func TestSilenceIsWeighed(t *testing.T) {
	for _, c := range []struct {
		name   string
		known  bool
		g      grade
		p      pulse
		e      event
		ok     bool
		want   event
		reason string
	}{
		{"well", true, alive, pulse{}, evComplete, true, evComplete, "source"},
		{"silent", true, silent, pulse{}, evComplete, true, evSilent, "why; source"},
		{"silent and unreachable", true, silent, pulse{failure: "why"}, evUnreachable, true, evSilent, "why"}, // not told twice
		{"expired", true, expired, pulse{}, evUnreachable, true, evExpire, "why; source"},
		{"denied for long", true, expired, pulse{}, evDeny, true, evExpire, "why; source"},
		{"denied", true, silent, pulse{}, evDeny, true, evDeny, "source"},
		{"the probe is denied first", true, alive, pulse{denied: true, failure: "no"}, evComplete, true, evDeny, "no"},
		{"the probe is denied before anything else", false, alive, pulse{denied: true, failure: "no"}, 0, false, evDeny, "no"},
		{"unknown, and silent for long", false, expired, pulse{}, evAnswer, true, evUnreachable, "why; source"},
		{"unknown, and nothing at all", false, silent, pulse{}, 0, false, evUnreachable, "why; source"},
		{"unknown and unreachable", false, silent, pulse{}, evUnreachable, true, evUnreachable, "source"},
	} {
		why := ""
		if c.g != alive {
			why = "why"
		}
		if e, reason, ok := weigh(c.known, c.g, why, &c.p, c.e, "source", c.ok); e != c.want || reason != c.reason || !ok {
			t.Errorf("%s: %v %q %v, want %v %q", c.name, e, reason, ok, c.want, c.reason)
		}
	}
}

// Any history, second by second, against a twin that only counts seconds.
func TestLivenessOfAnyHistory(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		l := Liveness{Unanswered: time.Duration(1+rnd.IntN(5)) * time.Second, Unheard: time.Duration(1+rnd.IntN(20)) * time.Second}
		l.Stale = max(l.Unanswered, l.Unheard) + time.Duration(rnd.IntN(20))*time.Second
		now := time.Unix(1000, 0)
		var p pulse
		var h model.SourceHealth
		a := answer{probed: rnd.IntN(4) > 0}
		p.begin(now)
		var quiet [model.Kinds + 1]int // the twin: seconds of silence, the probe last
		var life life
		life.step(now, evComplete, "")
		for range 200 {
			now = now.Add(time.Second)
			for i := range quiet {
				quiet[i]++
			}
			if rnd.IntN(50) == 0 {
				p.begin(now)
				quiet = [model.Kinds + 1]int{}
			}
			dead := rnd.IntN(3) == 0
			for k := range model.Kinds {
				if !dead && rnd.IntN(6) == 0 {
					h.Kinds[k].LastEvent = now
					quiet[k] = 0
				}
			}
			if a.failure = "refused"; !dead && rnd.IntN(2) == 0 {
				a.answered, a.failure = now, ""
				quiet[model.Kinds] = 0
			}
			p.take(&h, a)
			want := alive
			for i, n := range quiet {
				limit := l.Unheard
				if i == int(model.Kinds) {
					if limit = l.Unanswered; !a.probed {
						continue
					}
				} else if model.Kind(i).Optional() && h.Kinds[i].LastEvent.IsZero() {
					continue
				}
				switch d := time.Duration(n) * time.Second; {
				case d >= l.Stale:
					want = expired
				case d >= limit && want == alive:
					want = silent
				}
			}
			g, reason := l.judge(now, &p)
			if g != want || (reason == "") != (g == alive) {
				t.Fatalf("seed %d: %v because of %q, want %v; silence %v, %+v", seed, g, reason, want, quiet, l)
			}
			e, _, _ := weigh(true, g, reason, &p, evComplete, "", true)
			before := life.state
			life.step(now, e, reason)
			state := map[grade]State{alive: Synced, silent: Suspect, expired: Stale}[g]
			if before == Stale && g == silent {
				state = Stale // on its way back
			}
			if life.state != state {
				t.Fatalf("seed %d: %v after %v on %v, want %v", seed, life.state, before, g, state)
			}
		}
	}
}

// asked is a prober that answers as the test says.
type asked struct {
	mu     sync.Mutex
	err    error
	hangs  bool
	probes int
	closed int
}

func (a *asked) Probe(ctx context.Context) error {
	a.mu.Lock()
	err, hangs := a.err, a.hangs
	a.probes++
	a.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (a *asked) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
}

func (a *asked) set(err error, hangs bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err, a.hangs = err, hangs
}

// A cluster that falls silent is suspect, then stale, keeps what it has, and
// comes back; each change is one line of the log.
func TestSilentClusterIsToldAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &asked{}
		w := newWorld(t, func(o *Options) { o.NewProber = func(Spec) (Prober, error) { return p, nil } })
		w.put("s", 1, secretToken)
		w.run()
		w.expect("start c/1, synced c/1")
		is := func(after time.Duration, want State, reason string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if s := w.manager.List()[0]; s.State != want || !strings.Contains(s.Reason, reason) || (reason == "") != (s.Reason == "") || s.SyncStatus() != "synced" || s.Served != 100 {
				t.Errorf("after %v: %v because of %q since %v, %s, want %v because of %q", after, s.State, s.Reason, s.Since, s.SyncStatus(), want, reason)
			}
		}
		is(time.Minute, Synced, "")
		if p.probes < 10 || p.probes > 15 {
			t.Errorf("%d probes in a minute", p.probes)
		}
		// It accepts, and does not answer; its watches are silent too.
		p.set(nil, true)
		h := heardNow()
		w.mu.Lock()
		w.health["c/1"] = h
		w.mu.Unlock()
		is(8*time.Second, Synced, "")
		is(14*time.Second, Suspect, "no answer within 4s")
		suspect := w.manager.List()[0].Since
		is(4*time.Minute, Suspect, "no answer since")
		if s := w.manager.List()[0].Since; !s.Equal(suspect) {
			t.Errorf("suspect since %v, then %v", suspect, s)
		}
		is(time.Minute, Stale, "no answer since")
		is(time.Hour, Stale, "no answer within 4s")
		w.expect("") // its endpoints are as they were
		// It answers, its watches are not heard yet; then they are.
		p.set(nil, false)
		is(10*time.Second, Stale, "no event or bookmark since")
		w.mu.Lock()
		delete(w.health, "c/1")
		w.mu.Unlock()
		is(time.Second, Synced, "")
		// The probe refuses the credential while the watches go on.
		p.set(apierrors.NewUnauthorized("token expired"), false)
		time.Sleep(10 * time.Second)
		w.expectStates("c istio-system/s denied")
		p.set(errors.New("it answers 503 for "+secretToken), false)
		time.Sleep(20 * time.Second)
		w.expectStates("c istio-system/s denied")
		p.set(nil, false)
		is(10*time.Second, Synced, "")
		log := w.log.String()
		for line, want := range map[string]int{"cluster is silent,": 1, "cluster is silent for long": 1, "refuses the credential": 1, "cluster answers": 2} {
			if n := strings.Count(log, line); n != want {
				t.Errorf("%q stands %d times in the log, not %d:\n%s", line, n, want, log)
			}
		}
		if strings.Contains(log+fmt.Sprint(w.manager.List()), secretToken) {
			t.Errorf("a credential is told:\n%s", log)
		}
		// It is removed: nobody asks any more.
		w.gone("s")
		w.expect("end c/1, removed c/1")
		before := p.probes
		time.Sleep(time.Minute)
		if p.probes != before || p.closed != 1 {
			t.Errorf("%d probes after the removal, closed %d times", p.probes-before, p.closed)
		}
		w.stop()
	})
}

// A fleet's probes are spread over time, from the first one on.
func TestProbesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		slots := map[time.Duration]int{}
		w := newWorld(t, func(o *Options) {
			o.NewProber = func(Spec) (Prober, error) {
				return probeFunc(func() {
					mu.Lock()
					defer mu.Unlock()
					slots[time.Duration(time.Now().UnixNano())/(100*time.Millisecond)]++
				}), nil
			}
		})
		keys := map[string]string{}
		for i := range 200 {
			keys[fmt.Sprint("c", i)] = goodKubeconfig("a")
		}
		w.api.Put("secrets", secret("s", 1, keys))
		w.run()
		time.Sleep(time.Minute)
		w.stop()
		most, all := 0, 0
		for _, n := range slots {
			most, all = max(most, n), all+n
		}
		if most > 25 || all < 200*10 { // 4 on average
			t.Errorf("%d of %d probes within 100 ms", most, all)
		}
	})
}

type probeFunc func()

func (f probeFunc) Probe(context.Context) error { f(); return nil }
func (probeFunc) Close()                        {}
