package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// SecretSelector selects the secrets that hold kubeconfigs of clusters.
const SecretSelector = "istio/multiCluster=true"

// RemoveAnnotation with the value RemoveNow on a remote secret removes its
// clusters at once, without undo window and steps: what somebody wants for a
// cluster that was taken over by others. It holds while the secret is there, and
// nobody else gets the IDs meanwhile. Nothing comes back when the secret is
// deleted then. It is an annotation and no command since it must hold in every
// replica and after a restart, and who may use it is settled already: whoever
// may write the secret.
const (
	RemoveAnnotation = "tributary.io/remove"
	RemoveNow        = "now"
)

// secrets follows the remote secrets of one namespace. It reads no other
// namespace: whoever may write a secret somewhere must not add clusters.
type secrets struct {
	namespace     string
	client        typedcorev1.SecretInterface
	allowInsecure bool
	changed       func()             // wakes the manager
	counted       func(event string) // add, update or delete of a secret

	mu     sync.Mutex
	listed bool
	err    error // of the last list or watch; nil once one works
	views  map[string]secretView
	atOnce []string // of secrets that went with RemoveAnnotation, until they are taken
}

// snapshot returns what is known of the secrets.
func (s *secrets) snapshot() (views []secretView, listed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.views)), s.listed, s.err
}

// takeAtOnce returns the secrets that have gone and asked that their clusters be
// removed at once, each one time.
func (s *secrets) takeAtOnce() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.atOnce
	s.atOnce = nil
	return names
}

// run follows the secrets until ctx ends.
func (s *secrets) run(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 15*time.Second
	for ctx.Err() == nil {
		started := time.Now()
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		s.changed()
		if time.Since(started) > pause.MaxInterval {
			pause.Reset()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// follow lists the secrets and takes in changes until the watch ends, as it
// does every few minutes.
func (s *secrets) follow(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: SecretSelector}
	list, err := s.client.List(ctx, options)
	if err != nil {
		return fmt.Errorf("listing secrets with the label %s in namespace %s: %s", SecretSelector, s.namespace, safeText(err))
	}
	s.replace(list.Items)
	timeout := int64(300 + rand.IntN(300))
	options.ResourceVersion, options.TimeoutSeconds, options.AllowWatchBookmarks = list.ResourceVersion, &timeout, true
	w, err := s.client.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watching secrets with the label %s in namespace %s: %s", SecretSelector, s.namespace, safeText(err))
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			switch o := e.Object.(type) {
			case *corev1.Secret:
				switch e.Type {
				case watch.Added, watch.Modified:
					s.set(o)
				case watch.Deleted:
					s.drop(nameOf(o), asksRemoval(o))
				}
			case *metav1.Status:
				if err := apierrors.FromObject(o); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					return fmt.Errorf("watching secrets in namespace %s: %s", s.namespace, safeText(err))
				}
				return nil
			}
		}
	}
}

// replace takes in the whole list.
func (s *secrets) replace(list []corev1.Secret) {
	present := map[string]bool{}
	for i := range list {
		present[nameOf(&list[i])] = true
		s.set(&list[i])
	}
	s.mu.Lock()
	var gone []string
	for name := range s.views {
		if !present[name] {
			gone = append(gone, name)
		}
	}
	s.listed, s.err = true, nil
	s.mu.Unlock()
	for _, name := range gone {
		s.drop(name, false)
	}
	s.changed()
}

// set takes in one secret, with all its keys as they are now.
func (s *secrets) set(o *corev1.Secret) {
	name := nameOf(o)
	s.mu.Lock()
	was, known := s.views[name]
	s.mu.Unlock() // only this goroutine writes
	view := secretView{name: name, created: o.CreationTimestamp.Time, atOnce: asksRemoval(o)}
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		var before *claim
		if i, ok := slices.BinarySearchFunc(was.keys, key, func(c claim, k string) int { return strings.Compare(string(c.id), k) }); ok {
			before = &was.keys[i]
		}
		view.keys = append(view.keys, parseClaim(name, key, o.Data[key], before, s.allowInsecure))
	}
	if known && was.created.Equal(view.created) && was.atOnce == view.atOnce && slices.EqualFunc(was.keys, view.keys, func(a, b claim) bool { return a.id == b.id && a.sum == b.sum }) {
		return // a label or an annotation, or the same once more
	}
	s.mu.Lock()
	s.views[name] = view
	s.mu.Unlock()
	if known {
		s.counted("update")
	} else {
		s.counted("add")
	}
	s.changed()
}

func (s *secrets) drop(name string, atOnce bool) {
	s.mu.Lock()
	view, known := s.views[name]
	delete(s.views, name)
	if known && (view.atOnce || atOnce) {
		s.atOnce = append(s.atOnce, name)
	}
	s.mu.Unlock()
	if known {
		s.counted("delete")
		s.changed()
	}
}

func asksRemoval(o *corev1.Secret) bool { return o.Annotations[RemoveAnnotation] == RemoveNow }

func nameOf(o *corev1.Secret) string { return o.Namespace + "/" + o.Name }

// safeText returns the text of an error of a list or watch of secrets. Errors on
// answers that cannot be decoded quote the answer, which here holds credentials:
// only what the network or the API server itself reports is passed on.
func safeText(err error) string {
	var network *url.Error
	switch reason := apierrors.ReasonForError(err); {
	case errors.As(err, &network):
		return network.Error()
	case reason == metav1.StatusReasonUnknown:
		return "the answer cannot be read"
	case reason == metav1.StatusReasonInternalError:
		return "the API server fails (" + string(reason) + ")"
	}
	return err.Error()
}
