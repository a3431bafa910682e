package debug

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tributary/model"
	"tributary/shards"
)

// Bounds of one page of the API.
const (
	defaultLimit = 500
	maxLimit     = 5000
)

// query is what a request to the API asks for.
type query struct {
	hosts      []string // exact
	names      []string // a host, or its first labels
	text       string   // anywhere in the host or namespace
	namespaces []string
	clusters   []string
	states     []string
	limit      int
	after      cursor
	resumed    bool
}

// cursor is where a page ended: Skip items of the service with Key were on it.
type cursor struct {
	Key  model.ServiceKey
	Skip int
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Key.Host + "\x00" + c.Key.Namespace + "\x00" + strconv.Itoa(c.Skip)))
}

func parseCursor(s string) (cursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return cursor{}, fmt.Errorf("continue is not what an earlier page gave: %w", err)
	}
	parts := strings.Split(string(b), "\x00")
	if len(parts) != 3 {
		return cursor{}, fmt.Errorf("continue is not what an earlier page gave")
	}
	skip, err := strconv.Atoi(parts[2])
	if err != nil || skip < 0 {
		return cursor{}, fmt.Errorf("continue is not what an earlier page gave")
	}
	return cursor{model.ServiceKey{Host: parts[0], Namespace: parts[1]}, skip}, nil
}

// parseQuery reads the parameters that an endpoint knows; another one is a
// mistake that would silently give more than was asked for.
func parseQuery(r *http.Request, known ...string) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, fmt.Errorf("reading the query: %w", err)
	}
	allowed := map[string]bool{"pretty": true}
	for _, k := range known {
		allowed[k] = true
	}
	for k := range values {
		if !allowed[k] {
			return query{}, fmt.Errorf("unknown parameter %q; known are %s", k, strings.Join(known, ", "))
		}
	}
	q := query{
		hosts: values["host"], names: values["name"], text: strings.ToLower(values.Get("q")), namespaces: values["namespace"],
		clusters: values["cluster"], states: values["state"], limit: defaultLimit,
	}
	if s := values.Get("limit"); s != "" {
		if q.limit, err = strconv.Atoi(s); err != nil || q.limit < 1 {
			return query{}, fmt.Errorf("limit must be a number from 1 to %d, not %q", maxLimit, s)
		}
		q.limit = min(q.limit, maxLimit)
	}
	if s := values.Get("continue"); s != "" {
		if q.after, err = parseCursor(s); err != nil {
			return query{}, err
		}
		q.resumed = true
	}
	return q, nil
}

// service reports whether q asks for a service, by what its key tells.
func (q *query) service(key model.ServiceKey) bool {
	return oneOf(q.hosts, key.Host) && oneOf(q.namespaces, key.Namespace) && named(q.names, key.Host) &&
		(q.text == "" || strings.Contains(strings.ToLower(key.Host), q.text) || strings.Contains(strings.ToLower(key.Namespace), q.text))
}

// candidates yields the services that q can be about: those of the named hosts,
// without a walk over all, or all.
func (q *query) candidates(snap *shards.Snapshot) func(yield func(*shards.Service) bool) {
	if len(q.hosts) != 1 {
		return snap.Services()
	}
	return snap.Host(q.hosts[0])
}

func oneOf(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return len(list) == 0
}

// named reports whether s is one of names or begins with one of them as whole
// labels, so that "reviews" and "reviews.shop" name reviews.shop.svc.cluster.local.
func named(names []string, s string) bool {
	for _, n := range names {
		if s == n || strings.HasPrefix(s, n+".") {
			return true
		}
	}
	return len(names) == 0
}

// Failure is the answer to a request that cannot be answered.
type Failure struct {
	Message string `json:"error"`
}

func fail(w http.ResponseWriter, code int, err error) {
	b, _ := json.Marshal(Failure{err.Error()}) // a string always marshals
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n'))
}

func noSuchAPI(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusNotFound, fmt.Errorf("there is no %s; /debug lists what there is", r.URL.Path))
}

func writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	b, err := marshal(v, r.URL.Query().Has("pretty"))
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}

func marshal(v any, pretty bool) ([]byte, error) {
	if pretty {
		return json.MarshalIndent(v, "", "    ")
	}
	return json.Marshal(v)
}

// walk keeps the number of requests small that walk the whole registry at a
// time; it reports whether the request may go on, and done ends it.
func (s *Server) walk(w http.ResponseWriter, r *http.Request) (done func(), ok bool) {
	patience := time.NewTimer(walkPatience)
	defer patience.Stop()
	select {
	case s.busy <- struct{}{}:
		return func() { <-s.busy }, true
	case <-r.Context().Done():
	case <-patience.C:
	}
	w.Header().Set("Retry-After", "5")
	fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d requests for the whole registry are running already", maxWalks))
	return nil, false
}

// unheard lists the clusters of which nothing is known yet.
func (s *Server) unheard() []string {
	var ids []string
	for _, c := range s.sources.Clusters() {
		if !c.Known && c.Epoch != 0 {
			ids = append(ids, string(c.ID))
		}
	}
	return ids
}
