package debug

import "time"

// SetClock makes ages in answers repeatable.
func (s *Server) SetClock(now func() time.Time) { s.now = now }

// SetPace makes the event stream quick enough to wait for.
func (s *Server) SetPace(gap, look time.Duration) { s.hub.gap, s.hub.look = gap, look }

// Paths lists the endpoints of the index.
func (s *Server) Paths() []string {
	var list []string
	for _, r := range s.routes {
		list = append(list, r.Path)
	}
	return list
}

// MaxListeners bounds the clients of the event stream.
const MaxListeners = maxListeners

// Counted returns what the tally says after counting incrementally, and what a
// fresh one says.
func (s *Server) Counted() (incremental, fresh Tally) {
	snap := s.snapshot()
	return s.tally.count(snap), newTally().count(snap)
}
