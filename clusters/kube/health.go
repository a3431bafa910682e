package kube

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/model"
)

// health collects what a source observes of itself. Any goroutine may use it.
type health struct {
	mu   sync.Mutex
	now  model.SourceHealth
	lost [model.Kinds]troubles
}

// troubles keeps the troubles of lists and of watches apart: a credential that
// may list but not watch would else look well after each list.
type troubles struct{ list, watch trouble }

type trouble struct {
	what   model.Trouble
	detail string
	since  time.Time
}

// request is the kind of request that failed or was answered.
type request uint8

const (
	listRequest request = iota
	watchRequest
)

// Health returns what was observed so far.
func (h *health) Health() model.SourceHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// unused notes that parts of an object could not be used. Its name comes from
// outside, and may be anything.
func (h *health) unused(k model.Kind, o metav1.Object, dropped int) {
	if dropped == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	row := &h.now.Kinds[k]
	row.Dropped += uint64(dropped)
	row.LastDropped = clip(strings.ToValidUTF8(strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"), "?"))
}

// heard notes an answer, an event or a bookmark, at resourceVersion version.
func (h *health) heard(k model.Kind, now time.Time, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := &h.now.Kinds[k]
	row.Answered, row.LastEvent = true, now
	if version != "" {
		row.Version = version
	}
}

// failed notes that a request of kind k failed.
func (h *health) failed(k model.Kind, r request, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.Kinds[k].Errors++
	var late *overdue
	if errors.As(err, &late) {
		h.now.Kinds[k].Overdue++
	}
	t := h.lost[k].of(r)
	if what := troubleOf(err); t.what != what {
		t.what, t.since = what, now
	}
	t.detail = clip(textOf(err))
	h.now.Kinds[k].LastError, h.now.Kinds[k].LastErrorAt = t.detail, now
	h.sum(k)
}

// forbidden notes that a kind that a source may be without is not to be read.
func (h *health) forbidden(k model.Kind, r request, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.lost[k].of(r) = trouble{}
	row := &h.now.Kinds[k]
	row.Answered, row.LastEvent = true, now
	row.Remark = clip(k.String() + "s are not read: " + textOf(err))
	h.sum(k)
}

// worked notes that a request of kind k was answered. A watch that is open
// proves that lists were answered too.
func (h *health) worked(k model.Kind, r request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.lost[k].of(r) = trouble{}
	if r == watchRequest {
		h.lost[k].list = trouble{}
		h.now.Kinds[k].Remark = ""
	}
	h.sum(k)
}

// all notes one trouble for all kinds, as of sources that read them together.
func (h *health) all(what model.Trouble, detail string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range model.Kinds {
		t := &h.lost[k].list
		if t.what != what {
			t.what, t.since = what, now
		}
		t.detail = clip(detail)
		if what == model.NoTrouble {
			*t = trouble{}
		} else {
			h.now.Kinds[k].LastError, h.now.Kinds[k].LastErrorAt = t.detail, now
		}
		h.sum(k)
	}
}

// count adds to the counters of a source that does not tell kinds apart. They
// stand with the first kind.
func (h *health) count(errors, dropped int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.Kinds[0].Errors += uint64(errors)
	h.now.Kinds[0].Dropped += uint64(dropped)
}

// sum writes the worse of both troubles into the row that is shown.
func (h *health) sum(k model.Kind) {
	t := h.lost[k].list
	if w := h.lost[k].watch; w.what > t.what {
		t = w
	}
	row := &h.now.Kinds[k]
	row.Trouble, row.Detail, row.Since = t.what, t.detail, t.since
}

func (t *troubles) of(r request) *trouble {
	if r == watchRequest {
		return &t.watch
	}
	return &t.list
}

// troubleOf tells a refused credential from everything else that can go wrong.
func troubleOf(err error) model.Trouble {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return model.Denied
	}
	return model.Unreachable
}

// textOf returns the text of an error of a list or watch. Errors on answers
// that cannot be decoded quote the answer, and pods hold what nobody wants in a
// log: only what the network or the API server itself reports is passed on.
func textOf(err error) string {
	var network *url.Error
	var status apierrors.APIStatus
	var late *overdue
	switch reason := apierrors.ReasonForError(err); {
	case errors.As(err, &late):
		return late.Error()
	case errors.As(err, &network):
		return network.Error()
	case errors.As(err, &status) && status.Status().Code/100 == 3:
		return "it redirects elsewhere, which is not followed"
	case reason == metav1.StatusReasonUnknown:
		return "the answer cannot be read"
	case reason == metav1.StatusReasonInternalError:
		return "the API server fails (" + string(reason) + ")"
	}
	return err.Error()
}

// clip cuts a text that came from outside to what a person reads, in one line.
func clip(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
