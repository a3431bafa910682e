package debug

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"tributary/model"
)

// Pace and bounds of the event stream.
const (
	eventGap       = 250 * time.Millisecond // between two messages
	eventLook      = time.Second            // at clusters and proxies, which wake nobody
	eventHeartbeat = 15 * time.Second       // so that a client that is gone is noticed
	maxListeners   = 64
)

// Event is one message of the event stream: not what changed, but how much there
// is, and marks that differ when something did. Whoever wants to know more asks
// the API.
type Event struct {
	Revision uint64 `json:"revision"`
	Tally
	Ready bool `json:"ready"`
	// Complete tells that clients may see all that clusters had said when they
	// were complete. It comes with Ready or soon after.
	Complete bool           `json:"complete"`
	Waiting  []Wait         `json:"waiting,omitempty"`
	Clusters map[string]int `json:"clusters"` // how many are in each state
	Proxies  map[string]int `json:"proxies"`  // likewise
	// ClustersMark and ProxiesMark change with what the API says of them.
	ClustersMark string `json:"clustersMark"`
	ProxiesMark  string `json:"proxiesMark"`
}

// Wait is something that readiness waits for.
type Wait struct {
	Cluster string    `json:"cluster,omitempty"`
	What    string    `json:"what"`
	Since   time.Time `json:"since"`
}

// event returns the message of this moment.
func (s *Server) event() Event {
	snap := s.snapshot()
	e := Event{Revision: snap.Revision, Tally: s.tally.count(snap), Clusters: map[string]int{}, Proxies: map[string]int{}}
	ready, waiting := s.sources.Ready(s.now())
	e.Ready = ready
	for _, w := range waiting {
		e.Waiting = append(e.Waiting, Wait{string(w.Cluster), w.What, w.Since.UTC()})
	}
	mark := fnv.New64a()
	e.Complete = ready
	for _, c := range s.sources.Clusters() {
		if _, there := snap.Synced(model.ShardKey{Provider: model.Kubernetes, Cluster: c.ID}); c.Known && !there {
			e.Complete = false
		}
		e.Clusters[c.State.String()]++
		fmt.Fprintln(mark, c.ID, c.Secret, c.Dir, c.State, c.Reason, c.Since.UnixNano(), c.Epoch, c.Known, c.TimedOut, c.LastError)
	}
	e.ClustersMark = fmt.Sprintf("%016x", mark.Sum64())
	mark.Reset()
	for _, p := range s.sources.Proxies() {
		e.Proxies[proxyState(&p)]++
		fmt.Fprintln(mark, p.ID, p.Connected.UnixNano())
		for i := range p.Types {
			fmt.Fprintln(mark, p.Types[i].URL, typeState(&p.Types[i]), p.Types[i].Version)
		}
	}
	e.ProxiesMark = fmt.Sprintf("%016x", mark.Sum64())
	return e
}

// hub tells listeners of events. Its goroutine makes one message for all of
// them; it lives while there are any.
type hub struct {
	server *Server
	gap    time.Duration
	look   time.Duration

	mu        sync.Mutex
	listeners map[chan []byte]struct{}
	last      []byte        // nil while nobody listens
	stop      chan struct{} // ends the goroutine
	running   sync.WaitGroup
}

func newHub(s *Server) *hub {
	return &hub{server: s, gap: eventGap, look: eventLook, listeners: map[chan []byte]struct{}{}}
}

// join returns a channel that holds the newest message that was not read yet; ok
// is false if there are too many listeners.
func (h *hub) join() (messages chan []byte, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= maxListeners {
		return nil, false
	}
	messages = make(chan []byte, 1)
	h.listeners[messages] = struct{}{}
	if h.stop == nil {
		h.stop = make(chan struct{})
		stop := h.stop
		h.running.Go(func() { h.run(stop) })
	} else if h.last != nil {
		messages <- h.last
	}
	return messages, true
}

func (h *hub) leave(messages chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, messages)
	if len(h.listeners) == 0 {
		close(h.stop)
		h.stop, h.last = nil, nil
	}
}

func (h *hub) wait() { h.running.Wait() }

func (h *hub) run(stop chan struct{}) {
	wake, cancel := h.server.sources.Wake()
	defer cancel()
	look := time.NewTicker(h.look)
	defer look.Stop()
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		h.tell(stop)
		gap.Reset(h.gap)
		select { // whatever happens in the gap is one message
		case <-stop:
			return
		case <-gap.C:
		}
		select {
		case <-stop:
			return
		case <-wake:
		case <-look.C:
		}
	}
}

// tell gives every listener the message of this moment if it says something new.
func (h *hub) tell(stop chan struct{}) {
	message, err := json.Marshal(h.server.event())
	if err != nil {
		return // an Event always marshals
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != stop || string(message) == string(h.last) {
		return // the listeners that are there now have a goroutine of their own
	}
	h.last = message
	for l := range h.listeners {
		select {
		case <-l: // not read yet, and old now
		default:
		}
		l <- message
	}
}

// events is the handler of the stream.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	messages, ok := s.hub.join()
	if !ok {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d clients listen to events already", maxListeners))
		return
	}
	defer s.hub.leave(messages)
	control := http.NewResponseController(w)
	send := func(text string) bool {
		extend(w)
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !send("retry: 2000\n\n") || r.Method == http.MethodHead {
		return
	}
	heartbeat := time.NewTicker(eventHeartbeat)
	defer heartbeat.Stop()
	for {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done(): // the client is gone, or the server ends
			return
		case m := <-messages:
			text = "event: change\ndata: " + string(m) + "\n\n"
		case <-heartbeat.C:
		}
		if !send(text) {
			return
		}
	}
}
