package clusters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary/model"
)

// Defaults of Options.
const (
	DefaultSecretNamespace = "istio-system"
	DefaultSyncTimeout     = 30 * time.Second
)

// tick is how often the manager looks at its clusters when nothing wakes it:
// what sources observe is noticed that late at most.
const tick = 500 * time.Millisecond

// Options says where clusters are known from and how they are followed.
type Options struct {
	// ClusterID and Config are those of the config cluster. Without Config there
	// is none.
	ClusterID model.ClusterID
	Config    *rest.Config
	// Secrets reaches the cluster that holds remote secrets, and SecretNamespace
	// (default DefaultSecretNamespace) is the only one that is read. Without
	// Secrets there are no remote clusters.
	Secrets         kubernetes.Interface
	SecretNamespace string
	// AllowInsecure lets kubeconfigs from secrets and files use plain HTTP or skip the
	// verification of certificates (AllowInsecureSetting).
	AllowInsecure bool
	// KubeconfigDir is a directory of kubeconfigs, one file a cluster; "" for
	// none. Files are trusted no more than secrets.
	KubeconfigDir string
	// Fleet is a directory of which each subdirectory is a cluster; "" for none.
	Fleet string
	// UndoWindow is how long the endpoints of a cluster that is no longer wanted
	// stay, in case it is wanted again, before they leave in steps. 0 removes
	// them at once.
	UndoWindow time.Duration

	// NewRunner makes the source of a cluster. It must not reach out to it yet.
	NewRunner func(Spec) (Runner, error)
	// NewProber makes what asks the API server of a cluster whether it is there.
	// It must not reach out to it yet. nil: what is heard of watches tells alone.
	NewProber func(Spec) (Prober, error)
	// Liveness is how long a cluster may be silent.
	Liveness Liveness
	// SyncTimeout is how long readiness waits for a cluster.
	SyncTimeout time.Duration
	Logger      *slog.Logger          // default slog.Default()
	Metrics     prometheus.Registerer // nil for none
}

// Manager keeps one source running for each cluster there is.
type Manager struct {
	// Set once.
	options Options
	log     *slog.Logger
	secrets *secrets // nil if there are none
	files   *files   // nil if there are none
	fleet   *fleet   // nil if there is none
	metrics *metrics

	// For any goroutine.
	wake      chan struct{} // of size one
	view      atomic.Pointer[view]
	ready     chan struct{} // closed once ready
	readyOnce sync.Once
	inbox     inbox

	// Owned by the goroutine of Run.
	began   time.Time
	looked  time.Time // when the clusters were looked at last
	members map[model.ClusterID]*cluster
	refused []refusal
	told    map[string]string // refusals and lists that fail: what was logged of them
	floor   uint64            // epochs up to here may have been used by removed clusters
	ctx     context.Context
	out     func(context.Context, model.Batch) error
	work    sync.WaitGroup // runs and removals
}

// inbox holds what other goroutines have to say until the manager looks.
type inbox struct {
	mu     sync.Mutex
	synced map[model.ClusterID]model.Synced // the newest epoch of each
	gone   []model.ClusterID                // removals that are done
}

// New returns a manager that does nothing before Run.
func New(o Options) (*Manager, error) {
	if o.NewRunner == nil {
		return nil, errors.New("clusters: no NewRunner is given")
	}
	if o.Config != nil && !clusterID.MatchString(string(o.ClusterID)) {
		return nil, fmt.Errorf("cluster ID %q cannot be used: it must be letters, digits, '-', '_' and '.', and begin with a letter or digit (--cluster-id)", o.ClusterID)
	}
	if o.SecretNamespace == "" {
		o.SecretNamespace = DefaultSecretNamespace
	}
	if o.SyncTimeout <= 0 {
		o.SyncTimeout = DefaultSyncTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Liveness = o.Liveness.orDefaults()
	m := &Manager{
		options: o, log: o.Logger, wake: make(chan struct{}, 1), ready: make(chan struct{}),
		members: map[model.ClusterID]*cluster{}, told: map[string]string{},
	}
	m.inbox.synced = map[model.ClusterID]model.Synced{}
	m.metrics = newMetrics(m)
	if o.Secrets != nil {
		m.secrets = &secrets{
			namespace: o.SecretNamespace, client: o.Secrets.CoreV1().Secrets(o.SecretNamespace), allowInsecure: o.AllowInsecure,
			changed: m.changed, counted: func(event string) { m.metrics.secretEvents.WithLabelValues(event).Inc() },
			views: map[string]secretView{},
		}
	}
	if o.KubeconfigDir != "" {
		m.files = &files{dir: o.KubeconfigDir, allowInsecure: o.AllowInsecure, changed: m.changed}
	}
	if o.Fleet != "" {
		m.fleet = &fleet{dir: o.Fleet, log: o.Logger, changed: m.changed}
	}
	m.began = time.Now()
	m.view.Store(&view{lists: []Waiting{{What: "the clusters have not been looked at", Since: m.began}}})
	if o.Metrics != nil {
		if err := o.Metrics.Register(m.metrics); err != nil {
			return nil, fmt.Errorf("registering the metrics of clusters: %w", err)
		}
	}
	return m, nil
}

// Run follows the clusters until ctx ends, and hands what they say to out, from
// a goroutine of each source. When it returns, nothing of it runs any more. It
// is called once.
func (m *Manager) Run(ctx context.Context, out func(context.Context, model.Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.work.Wait()
	defer cancel()
	m.ctx, m.out, m.began = ctx, out, time.Now()
	if m.secrets != nil {
		m.work.Go(func() { m.secrets.run(ctx) })
	}
	if m.files != nil {
		m.work.Go(func() { m.files.run(ctx) })
	}
	if m.fleet != nil {
		m.work.Go(func() { m.fleet.run(ctx) })
	}
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		now := time.Now()
		m.listened(now)
		m.reconcile(now)
		timer.Reset(min(tick, m.due(now)))
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// listened lets silence count anew if this process did not run for a while: it
// was not the clusters that were silent.
func (m *Manager) listened(now time.Time) {
	if now.Sub(m.looked) > asleep && !m.looked.IsZero() {
		for _, c := range m.members {
			c.pulse.begin(now)
		}
		m.log.Warn("this process did not run for a while, the silence of clusters counts from now", "since", m.looked)
	}
	m.looked = now
}

// asleep is how long the manager looks at nothing only if it cannot.
const asleep = 10 * tick

// due returns how long it takes until time alone changes something.
func (m *Manager) due(now time.Time) time.Duration {
	next := tick
	for _, c := range m.members {
		if c.drain != nil && !c.leaving && !c.saying() {
			next = min(next, c.drain.due.Sub(now))
		}
		if c.complete.Epoch == 0 && !c.timedOut {
			if d := c.added.Add(m.options.SyncTimeout).Sub(now); d > 0 {
				next = min(next, d)
			}
		}
	}
	return max(0, next)
}

// changed wakes the manager. It never waits.
func (m *Manager) changed() {
	select {
	case m.wake <- struct{}{}:
	default: // it is awake already and will look at everything
	}
}

// Synced tells that the core has all of a source in an epoch. It never waits,
// and may be called from the core's goroutine.
func (m *Manager) Synced(s model.Synced) {
	m.inbox.mu.Lock()
	if was, ok := m.inbox.synced[s.Source.Cluster]; !ok || was.Epoch <= s.Epoch {
		m.inbox.synced[s.Source.Cluster] = s
	}
	m.inbox.mu.Unlock()
	m.changed()
}

// take empties the inbox.
func (b *inbox) take() (synced map[model.ClusterID]model.Synced, gone []model.ClusterID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	synced, gone = b.synced, b.gone
	b.synced, b.gone = map[model.ClusterID]model.Synced{}, nil
	return synced, gone
}
