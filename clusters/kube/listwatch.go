package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"tributary/model"
)

// listWatch is what a reflector lists and watches through. It lists page by
// page into the feed and gives the reflector an empty list with the version to
// watch from, so that no more than a page of objects is ever in memory.
type listWatch struct {
	feed     *feed
	kind     kind
	pageSize int64
	gate     *gate
	said     bool // a whole snapshot was handed over

	listDeadline, watchIdle time.Duration
	silent                  atomic.Bool // the last watch was given up, and what it has not told must be listed
	again                   bool        // the reflector returned for that, or a watch that was never answered
}

// IsWatchListSemanticsUnSupported keeps the reflector from streaming the list
// itself: it would collect all of it before it handed over the first object.
func (l *listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// List and Watch are here for the interface; the reflector calls the forms with
// a context.
func (l *listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch: see List.
func (l *listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// ListWithContext hands all objects of the kind to the feed.
//
// The version that the reflector asks for is not passed on. With one, API
// servers answer from their cache and ignore the size of the page, so that the
// list would come as a whole; without one the answer is also never older than
// what was seen before. If a page is refused because the list took too long
// (410 Gone) the reflector calls again at once, which is a new snapshot.
func (l *listWatch) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	// The reflector does not wait for this call when its context ends.
	leave, ok := l.gate.enter()
	if !ok {
		return nil, context.Canceled
	}
	defer leave()

	l.silent.Store(false) // what the last watch has not told is found
	options := metav1.ListOptions{Limit: l.pageSize}
	for start := true; ; start = false {
		page, err := l.page(ctx, options)
		now := time.Now()
		if start && l.without(ctx, listRequest, now, err) {
			return nil, l.sayNone(ctx, now, err)
		}
		if err != nil {
			return nil, l.failed(ctx, listRequest, now, err)
		}
		m, err := meta.ListAccessor(page)
		if err != nil {
			return nil, l.failed(ctx, listRequest, now, err)
		}
		version, rest := m.GetResourceVersion(), m.GetContinue()
		l.feed.health.worked(l.feed.kind, listRequest)
		b := l.feed.batch(now)
		b.SnapshotStart, b.SnapshotEnd = start, rest == ""
		err = meta.EachListItem(page, func(o runtime.Object) error {
			if _, dropped := l.feed.convert.add(&b, o); dropped > 0 {
				if m, err := meta.Accessor(o); err == nil {
					l.feed.health.unused(l.feed.kind, m, dropped)
				}
			}
			return nil
		})
		if err != nil {
			return nil, l.failed(ctx, listRequest, now, err)
		}
		l.feed.health.heard(l.feed.kind, now, version)
		if err := l.feed.page(ctx, b); err != nil {
			return nil, err
		}
		if b.SnapshotEnd {
			l.said = true
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
		}
		options.Continue = rest
	}
}

// WatchWithContext opens a watch from where the list or the last watch ended.
func (l *listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if l.silent.Swap(false) {
		l.again = true
		return nil, apierrors.NewResourceExpired("the last watch was silent")
	}
	w, err := l.open(ctx, o)
	var late *overdue
	l.again = errors.As(err, &late)
	if err != nil {
		if now := time.Now(); !l.without(ctx, watchRequest, now, err) {
			err = l.failed(ctx, watchRequest, now, err)
		}
		return nil, err
	}
	l.feed.health.worked(l.feed.kind, watchRequest)
	return w, nil
}

// without reports whether err says that a kind is not to be read that a source
// may be without. That is no trouble: it is remarked, and asked again in case
// somebody gives the permission.
func (l *listWatch) without(ctx context.Context, r request, now time.Time, err error) bool {
	if ctx.Err() != nil || !l.kind.kind.Optional() || !apierrors.IsForbidden(err) {
		return false
	}
	l.feed.health.forbidden(l.feed.kind, r, now, err)
	return true
}

// sayNone says that there is nothing of a kind that cannot be read, unless
// something was said before: that stays.
func (l *listWatch) sayNone(ctx context.Context, now time.Time, err error) error {
	if l.said {
		return err
	}
	b := l.feed.batch(now)
	b.SnapshotStart, b.SnapshotEnd = true, true
	if err := l.feed.page(ctx, b); err != nil {
		return err
	}
	l.said = true
	return err
}

// failed notes a failure, except those that are part of the protocol: our own
// end, and versions that the API server has forgotten.
func (l *listWatch) failed(ctx context.Context, r request, now time.Time, err error) error {
	if ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		l.feed.health.failed(l.feed.kind, r, now, err)
	}
	return fmt.Errorf("%s of cluster %s: %w", l.feed.kind, l.feed.source.Cluster, err)
}

// gate lets calls in until it is closed, and closing waits for those inside.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

func (g *gate) enter() (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.inside.Add(1)
	return g.inside.Done, true
}

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}

// kind is how objects of one kind are listed and watched.
type kind struct {
	kind    model.Kind
	example runtime.Object
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
}
