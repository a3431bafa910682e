package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// A server may accept a request and never answer it, or send a byte now and
// then. Each page of a list and each open watch therefore has a deadline. That
// of a watch follows from bookmarks, which come about once a minute: one on
// which nothing came for two of them and a little is taken for dead, and the
// kind is listed anew. That proves that the server is there, and finds what the
// watch has not told. It is shorter than what makes a cluster suspect
// (150 s), so a server without bookmarks is not.
const (
	DefaultListDeadline = time.Minute
	DefaultWatchIdle    = 130 * time.Second
)

// overdue is a request that was given up.
type overdue struct{ text string }

func (o *overdue) Error() string { return o.text }

// page asks for one page, for as long as the deadline allows.
func (l *listWatch) page(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	given, cancel := context.WithTimeout(ctx, l.listDeadline)
	defer cancel()
	page, err := l.kind.list(given, o)
	if err != nil && given.Err() != nil && ctx.Err() == nil {
		return nil, &overdue{fmt.Sprintf("a page of the list was not answered in full within %v", l.listDeadline)}
	}
	return page, err
}

// open opens a watch and guards it with a timer, which starts again with each
// event and bookmark.
func (l *listWatch) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	given, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(l.listDeadline, cancel)
	w, err := l.kind.watch(given, o)
	if inTime := timer.Stop(); !inTime || err != nil {
		cancel()
		if err == nil {
			w.Stop()
		}
		if !inTime && ctx.Err() == nil {
			err = &overdue{fmt.Sprintf("a watch was not answered within %v", l.listDeadline)}
		}
		return nil, err
	}
	guarded := &guardedWatch{Interface: w, cancel: cancel}
	l.feed.idle = time.AfterFunc(l.watchIdle, func() {
		guarded.giveUp(func() { // before the reflector can open the next one
			l.silent.Store(true)
			l.feed.health.failed(l.feed.kind, watchRequest, time.Now(),
				&overdue{fmt.Sprintf("a watch brought no event or bookmark for %v, all is listed anew", l.watchIdle)})
		})
	})
	guarded.timer = l.feed.idle
	return guarded, nil
}

// guardedWatch is a watch that ends when its timer fires.
type guardedWatch struct {
	watch.Interface
	cancel context.CancelFunc
	timer  *time.Timer

	mu    sync.Mutex
	ended bool
}

// Stop ends the watch, as the reflector does with each.
func (g *guardedWatch) Stop() {
	g.timer.Stop()
	g.giveUp(nil)
}

// giveUp ends the watch, unless it has ended, after a call of first.
func (g *guardedWatch) giveUp(first func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.ended = true
	if first != nil {
		first()
	}
	g.cancel()
	g.Interface.Stop()
}

// listening says that the watch is read: the timer runs. While a change waits
// for the core it does not, as then it is us who do not listen.
func (f *feed) listening(yes bool) {
	switch {
	case f.idle == nil:
	case yes:
		f.idle.Reset(f.watchIdle)
	default:
		f.idle.Stop()
	}
}
