package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/model"
	"tributary/test/fakeapi"
)

// world runs a manager on sources that do as they are told, and notes in order
// what happens to them: "start c1/1", "synced c1/1", "end c1/1", "removed c1/2".
type world struct {
	t       *testing.T
	api     *fakeapi.API
	manager *Manager
	log     *lockedBuffer
	cancel  context.CancelFunc
	ended   chan error

	mu       sync.Mutex
	events   []string
	running  int
	most     int
	health   map[string]model.SourceHealth // by "cluster/epoch"; default: well
	buildErr map[string]error
	hold     map[string]chan struct{} // runs that do not end before this is closed
	silent   map[string]bool          // runs that are not complete by themselves
	slow     chan struct{}            // if set, the core takes nothing before it is closed
	offered  int                      // what the manager itself had to say to a slow core
}

// lockedBuffer is written by goroutines of the manager while tests read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// obedient is a source of the world.
type obedient struct {
	w    *world
	name string
	spec Spec
}

func (s *obedient) Health() model.SourceHealth {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if h, ok := s.w.health[s.name]; ok {
		return h
	}
	return heardNow()
}

// heardNow is what a source observes that is well.
func heardNow() (h model.SourceHealth) {
	for k := range h.Kinds {
		h.Kinds[k].LastEvent = time.Now()
	}
	return h
}

func (s *obedient) Run(ctx context.Context, out func(context.Context, model.Batch) error) error {
	w := s.w
	w.mu.Lock()
	w.events = append(w.events, "start "+s.name)
	w.running++
	w.most = max(w.most, w.running)
	hold, silent := w.hold[s.name], w.silent[s.name]
	w.mu.Unlock()
	if !silent {
		_ = out(ctx, model.Batch{Source: s.spec.Source, Epoch: s.spec.Epoch, SnapshotEnd: true})
	}
	<-ctx.Done()
	if hold != nil {
		<-hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.events = append(w.events, "end "+s.name)
	return nil
}

// out plays the core.
func (w *world) out(ctx context.Context, b model.Batch) error {
	name := fmt.Sprintf("%s/%d", b.Source.Cluster, b.Epoch)
	w.mu.Lock()
	slow := w.slow
	if slow != nil && (b.Removed || b.Share != 0) {
		w.offered++
	}
	w.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.Removed {
		w.events = append(w.events, "removed "+name)
		return nil
	}
	if b.Share != 0 {
		w.events = append(w.events, fmt.Sprintf("%d%% %s", b.Share, name))
		return nil
	}
	w.events = append(w.events, "synced "+name)
	w.manager.Synced(model.Synced{Source: b.Source, Epoch: b.Epoch, Services: 3, Slices: 4, Workloads: 5, Endpoints: 6})
	return nil
}

func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	w := &world{
		t: t, api: fakeapi.New(), log: &lockedBuffer{}, ended: make(chan error, 1),
		health: map[string]model.SourceHealth{}, buildErr: map[string]error{}, hold: map[string]chan struct{}{}, silent: map[string]bool{},
	}
	o := Options{
		ClusterID: "config", Secrets: w.api.Client(t), Metrics: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		NewRunner: func(s Spec) (Runner, error) {
			name := fmt.Sprintf("%s/%d", s.Source.Cluster, s.Epoch)
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := w.buildErr[name]; err != nil {
				return nil, err
			}
			return &obedient{w, name, s}, nil
		},
	}
	if change != nil {
		change(&o)
	}
	var err error
	if w.manager, err = New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.cancel = cancel
	go func() { w.ended <- w.manager.Run(ctx, w.out) }()
	synctest.Wait()
}

func (w *world) stop() {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.t.Error(err)
	}
}

// happened returns what happened since it was asked last.
func (w *world) happened() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events
	w.events = nil
	return strings.Join(e, ", ")
}

func (w *world) expect(want string) {
	w.t.Helper()
	if got := w.happened(); got != want {
		w.t.Errorf("happened: %s\nwant:     %s", got, want)
	}
}

// expectSet is expect where the order is not ours.
func (w *world) expectSet(want string) {
	w.t.Helper()
	got := strings.Split(w.happened(), ", ")
	slices.Sort(got)
	if got := strings.Join(got, ", "); got != want {
		w.t.Errorf("happened: %s\nwant:     %s", got, want)
	}
}

// states returns all clusters as "id secret state".
func (w *world) states() string {
	synctest.Wait()
	var out []string
	for _, s := range w.manager.List() {
		out = append(out, strings.Join(strings.Fields(fmt.Sprint(s.ID, " ", s.Secret, " ", s.State)), " "))
	}
	return strings.Join(out, ", ")
}

func (w *world) expectStates(want string) {
	w.t.Helper()
	if got := w.states(); got != want {
		w.t.Errorf("states: %s\nwant:   %s", got, want)
	}
}

func secret(name string, created int64, keys map[string]string) *corev1.Secret {
	data := map[string][]byte{}
	for k, v := range keys {
		data[k] = []byte(v)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "istio-system", CreationTimestamp: metav1.Unix(created, 0),
		Labels: map[string]string{"istio/multiCluster": "true"}}, Data: data}
}

func TestKeysOfSecretsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.api.Put("secrets", secret("s", 1, map[string]string{"c1": goodKubeconfig("a"), "c2": goodKubeconfig("a")}))
		w.run()
		w.expectSet("start c1/1, start c2/1, synced c1/1, synced c2/1")
		w.expectStates("c1 istio-system/s synced, c2 istio-system/s synced")
		l := w.manager.List()
		if len(l) == 0 {
			t.Fatalf("no clusters; log:\n%s", w.log)
		}
		s := l[0]
		if !s.Known || s.Services != 3 || s.Slices != 4 || s.Workloads != 5 || s.Endpoints != 6 || s.Epoch != 1 || s.SyncStatus() != "synced" {
			t.Errorf("status %+v", s)
		}

		// A label changes nothing.
		labelled := secret("s", 1, map[string]string{"c1": goodKubeconfig("a"), "c2": goodKubeconfig("a")})
		labelled.Labels["x"] = "y"
		w.api.Put("secrets", labelled)
		w.expect("")
		// One key changes, one goes, one comes, in one step.
		w.api.Put("secrets", secret("s", 1, map[string]string{"c1": goodKubeconfig("b"), "c3": goodKubeconfig("a")}))
		w.happened()
		w.expectStates("c1 istio-system/s synced, c3 istio-system/s synced")
		if l := w.manager.List(); len(l) == 0 || l[0].Epoch != 2 {
			t.Fatalf("c1 is in another epoch: %+v, log:\n%s", l, w.log)
		}
		w.api.Delete("secrets", secret("s", 1, nil))
		w.happened()
		w.expectStates("")
		// The ID comes again: epochs go on, so that late words of the past are known.
		w.api.Put("secrets", secret("s", 1, map[string]string{"c1": goodKubeconfig("b")}))
		w.expect("start c1/3, synced c1/3")
		w.stop()
		w.expect("end c1/3") // our end is no removal
		if n := strings.Count(w.log.String(), "msg=\"cluster synced\""); n != 4 {
			t.Errorf("%d lines on syncing:\n%s", n, w.log)
		}
		for _, r := range w.api.Requests("secrets") {
			if !strings.Contains(r, "secrets") {
				t.Errorf("request %q", r)
			}
		}
	})
}

func TestRotationIsMakeBeforeBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		put := func(token string) {
			w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig(token)}))
		}
		put("a")
		w.silent["c/2"], w.silent["c/3"] = true, true
		w.run()
		w.expect("start c/1, synced c/1")
		put("b")
		w.expect("start c/2") // beside the old one
		put("c")
		w.expectSet("end c/2, start c/3") // never two that wait
		put("a")
		w.expect("end c/3") // back to the one in force
		put("d")
		w.expect("start c/4, synced c/4, end c/1")
		w.expectStates("c istio-system/s synced")
		if w.most != 2 {
			t.Errorf("%d sources ran at once", w.most)
		}
		// The core completes an epoch that was given up a moment before: it hears
		// none of the older ones any more, so a new one must begin.
		put("e")
		w.happened()
		w.silent["c/6"], w.silent["c/7"] = true, true
		put("f")
		w.expect("start c/6")
		put("e")
		w.expect("end c/6")
		w.manager.Synced(model.Synced{Source: source("c"), Epoch: 6})
		w.expectSet("end c/5, start c/7")
		w.manager.Synced(model.Synced{Source: source("c"), Epoch: 7})
		w.expect("")
		// Words of epochs that never were are not believed.
		w.manager.Synced(model.Synced{Source: source("c"), Epoch: 99})
		w.expect("")
		if got := w.manager.List()[0].Epoch; got != 7 {
			t.Errorf("epoch %d", got)
		}
		w.stop()
	})
}

func TestRemovalWaitsForTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.hold["c/1"] = make(chan struct{})
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("a"), "d": goodKubeconfig("a")}))
		w.run()
		w.happened()
		w.api.Put("secrets", secret("s", 1, map[string]string{"d": goodKubeconfig("a")}))
		w.expect("")
		w.expectStates("c istio-system/s removed, d istio-system/s synced")
		if s := w.manager.List()[0]; s.SyncStatus() != "closed" {
			t.Errorf("Istio's status is %s", s.SyncStatus())
		}
		// It comes back meanwhile, and others are not held up.
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("a"), "d": goodKubeconfig("b")}))
		w.expect("start d/2, synced d/2, end d/1")
		close(w.hold["c/1"])
		w.expect("end c/1, removed c/1, start c/2, synced c/2")
		w.stop()
	})
}

func TestIDInTwoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.api.Put("secrets", secret("younger", 20, map[string]string{"c": goodKubeconfig("y"), "config": goodKubeconfig("y")}))
		w.run()
		w.expect("start c/1, synced c/1")
		w.expectStates("c istio-system/younger synced, config istio-system/younger conflict")
		w.api.Put("secrets", secret("older", 10, map[string]string{"c": goodKubeconfig("o")}))
		w.expect("end c/1, removed c/1, start c/2, synced c/2") // a removal and an add
		w.expectStates("c istio-system/older synced, c istio-system/younger conflict, config istio-system/younger conflict")
		w.api.Delete("secrets", secret("older", 10, nil))
		w.expect("end c/2, removed c/2, start c/3, synced c/3")
		w.expectStates("c istio-system/younger synced, config istio-system/younger conflict")
		if n := strings.Count(w.log.String(), "config cluster itself"); n != 1 {
			t.Errorf("the own ID was told %d times:\n%s", n, w.log)
		}
		w.stop()
	})
}

func TestRefusedKubeconfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		bad := kubeconfig("server: 'https://x', insecure-skip-tls-verify: true", "token: "+secretToken)
		w.api.Put("secrets", secret("s", 1, map[string]string{"bad": bad, "good": goodKubeconfig("a")}))
		w.run()
		time.Sleep(time.Minute)
		w.expect("start good/1, synced good/1")
		w.expectStates("bad istio-system/s invalid, good istio-system/s synced")
		log := w.log.String()
		if n := strings.Count(log, "kubeconfig is refused"); n != 1 || !strings.Contains(log, "cluster=bad secret=istio-system/s") || !strings.Contains(log, AllowInsecureSetting) {
			t.Errorf("told %d times:\n%s", n, log)
		}
		if ready, waiting := w.manager.Ready(time.Now()); !ready {
			t.Errorf("waiting for %v", waiting)
		}
		// It is repaired; then the other one breaks, and goes on as it was.
		w.api.Put("secrets", secret("s", 1, map[string]string{"bad": goodKubeconfig("b"), "good": "x: [" + secretToken}))
		w.expect("start bad/1, synced bad/1")
		w.expectStates("bad istio-system/s synced, good istio-system/s synced")
		if s := w.manager.List()[1]; !strings.Contains(s.LastError, "key good") || !strings.Contains(s.Reason, "earlier kubeconfig") {
			t.Errorf("status %+v", s)
		}
		w.api.Put("secrets", secret("s", 1, map[string]string{"bad": goodKubeconfig("b")}))
		w.expect("end good/1, removed good/1")
		if text := w.log.String() + fmt.Sprint(w.manager.List()); strings.Contains(text, secretToken) {
			t.Errorf("a credential is told:\n%s", text)
		}
		w.stop()
	})
}

func TestSourceThatCannotBeMadeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.buildErr["c/1"] = errors.New("no such plugin")
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("a"), "d": goodKubeconfig("a")}))
		w.run()
		time.Sleep(10 * time.Second)
		w.expect("start d/1, synced d/1")
		if s := w.manager.List()[0]; s.State != Pending || s.Reason != "no such plugin" {
			t.Errorf("status %+v", s)
		}
		w.mu.Lock()
		delete(w.buildErr, "c/1")
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.expect("start c/1, synced c/1")
		if n := strings.Count(w.log.String(), "no such plugin"); n != 1 {
			t.Errorf("told %d times:\n%s", n, w.log)
		}
		w.stop()
	})
}

func (w *world) observe(name string, trouble model.Trouble, detail string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var h model.SourceHealth
	for k := range h.Kinds {
		h.Kinds[k].Answered = true
		h.Kinds[k].LastEvent = time.Now()
	}
	h.Kinds[model.KindPod].Trouble, h.Kinds[model.KindPod].Detail = trouble, detail
	w.health[name] = h
}

func TestStatesFollowTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.silent["c/1"] = true
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("a")}))
		w.run()
		check := func(trouble model.Trouble, want State, reason string) {
			t.Helper()
			w.observe("c/1", trouble, "no route")
			time.Sleep(2 * tick)
			synctest.Wait()
			if s := w.manager.List()[0]; s.State != want || s.Reason != reason || s.LastError != reason {
				t.Errorf("status %v %q %q, want %v %q", s.State, s.Reason, s.LastError, want, reason)
			}
		}
		w.expectStates("c istio-system/s pending")
		check(model.Denied, Denied, "Pod: no route")
		check(model.NoTrouble, Syncing, "")
		check(model.Unreachable, Syncing, "Pod: no route")
		w.manager.Synced(model.Synced{Source: source("c"), Epoch: 1})
		check(model.NoTrouble, Synced, "")
		check(model.Unreachable, Synced, "Pod: no route")
		check(model.Denied, Denied, "Pod: no route")
		check(model.Faulty, Synced, "no route")
		check(model.NoTrouble, Synced, "")
		// A new credential that is refused does not touch the state.
		w.silent["c/2"] = true
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("b")}))
		w.happened()
		w.observe("c/2", model.Denied, "Unauthorized")
		check(model.NoTrouble, Synced, "new credential: Pod: Unauthorized")
		w.stop()
	})
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, c := range []string{"dead/1", "denied/1"} {
			w.silent[c] = true
		}
		w.observe("denied/1", model.Denied, "Unauthorized")
		w.observe("dead/1", model.Unreachable, "no route")
		var refuse atomic.Bool
		refuse.Store(true)
		w.api.Refuse(func(_, _ string, _ *http.Request) *metav1.Status {
			if refuse.Load() {
				return fakeapi.Status(403, metav1.StatusReasonForbidden)
			}
			return nil
		})
		w.api.Put("secrets", secret("s", 1, map[string]string{"dead": goodKubeconfig("a"), "denied": goodKubeconfig("a"), "well": goodKubeconfig("a"), "bad": "x"}))
		waits := func(want ...string) bool {
			t.Helper()
			synctest.Wait()
			ready, waiting := w.manager.Ready(time.Now())
			var got []string
			for _, x := range waiting {
				got = append(got, string(x.Cluster)+": "+x.What)
			}
			ok := len(got) == len(want)
			for i := range want {
				ok = ok && strings.Contains(got[i], want[i])
			}
			if !ok {
				t.Errorf("waiting for %q, want %q", got, want)
			}
			return ready
		}
		if waits("not been looked at") {
			t.Error("ready before it ran")
		}
		w.run()
		time.Sleep(time.Minute)
		if waits("remote secrets in namespace istio-system cannot be known yet: listing secrets") {
			t.Error("ready without knowing which clusters there are")
		}
		if n := strings.Count(w.log.String(), "cannot be listed"); n != 1 {
			t.Errorf("told %d times:\n%s", n, w.log)
		}
		refuse.Store(false)
		time.Sleep(25 * time.Second) // longer than the longest pause between two lists
		if waits("dead: the cluster is pending: Pod: no route") {
			t.Error("ready while a cluster may still sync")
		}
		time.Sleep(30 * time.Second)
		if !waits() {
			t.Error("not ready although the dead cluster had its time")
		}
		log := w.log.String()
		if n := strings.Count(log, "not synced in time"); n != 1 || !strings.Contains(log, "cluster=dead") {
			t.Errorf("told %d times:\n%s", n, log)
		}
		// A cluster that comes later is told, and changes nothing.
		w.silent["late/1"] = true
		w.api.Put("secrets", secret("t", 1, map[string]string{"late": goodKubeconfig("a")}))
		if !waits("late: the cluster is pending") {
			t.Error("no longer ready")
		}
		w.stop()
	})
}

func TestConfigClusterAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Secrets, o.Config = nil, nil })
		w.run()
		if ready, waiting := w.manager.Ready(time.Now()); !ready {
			t.Errorf("waiting for %v", waiting)
		}
		w.stop()
		if _, err := New(Options{ClusterID: "a b", Config: nil}); err == nil {
			t.Error("no runner, no error")
		}
	})
}

// Each rotation and removal leaves nothing running; the bubble fails otherwise.
func TestThousandRotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Logger = slog.New(slog.DiscardHandler) })
		w.run()
		for i := range 1000 {
			w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig(fmt.Sprint("t", i))}))
			if i%10 == 9 {
				w.api.Delete("secrets", secret("s", 1, nil))
			}
			if i%3 == 0 {
				synctest.Wait()
			}
		}
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("last")}))
		synctest.Wait()
		w.expectStates("c istio-system/s synced")
		w.mu.Lock()
		running, most := w.running, w.most
		w.mu.Unlock()
		if running != 1 || most > 2 {
			t.Errorf("%d sources run, at most %d did", running, most)
		}
		w.stop()
	})
}

// An answer that cannot be decoded is quoted by client-go in its error, with
// the credentials in it.
func TestBrokenAnswersAreNotQuoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run()
		w.api.Event("secrets", "ADDED", map[string]any{"metadata": map[string]any{"name": "x"}, "data": map[string]any{"c": secretToken}})
		synctest.Wait()
		if log := w.log.String(); strings.Contains(log, secretToken) || !strings.Contains(log, "cannot be listed") {
			t.Errorf("log:\n%s", log)
		}
		time.Sleep(time.Minute)
		w.api.Put("secrets", secret("s", 1, map[string]string{"c": goodKubeconfig("a")}))
		w.expect("start c/1, synced c/1")
		if log := w.log.String(); !strings.Contains(log, "can be listed again") {
			t.Errorf("log:\n%s", log)
		}
		w.stop()
	})
}
