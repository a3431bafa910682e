package kube

import (
	"maps"
	"slices"
	"time"

	"tributary/model"
)

// clock is the time as the core sees it in one round, and how long an endpoint
// that leaves a slice is held for another slice to take it over.
type clock struct {
	now  time.Time
	hold time.Duration
}

// move names an endpoint that left a slice and is held in it.
type move struct {
	slice uint32
	addr  model.Addr
}

// moves is the state machine of endpoints that leave one slice while their pod
// is still there and ready. The EndpointSlice controller moves endpoints between
// slices by two writes; in between a client must not lose the endpoint, nor may
// it be kept once the pod went or stopped being ready. Each hold lasts equally
// long, so the queue is in order of their ends; some of it may be over already.
// A rotation ends them all: what the new epoch says counts.
type moves struct {
	due   map[move]time.Time
	held  map[uint32][]model.Addr // the same by slice
	queue []moveEnd
}

type moveEnd struct {
	move
	due time.Time
}

// holdMove decides whether e, which its slice no longer names, stays for now.
func (t *tables) holdMove(id uint32, e *model.Endpoint, clock clock) bool {
	if clock.hold <= 0 || !e.Flags.Served() || e.Workload == nil || !e.Workload.State.Serving() {
		return false
	}
	m := move{id, e.Addr}
	if _, held := t.moves.due[m]; held {
		return true // settleMoves decides
	}
	if e.Flags&model.EndpointMoving != 0 {
		return false
	}
	due := clock.now.Add(clock.hold)
	t.moves.due[m] = due
	t.moves.held[id] = append(t.moves.held[id], e.Addr)
	t.moves.queue = append(t.moves.queue, moveEnd{m, due})
	return true
}

// settleMoves ends the holds that are over: the time is up, another slice of
// the service has the endpoint, its own slice has it back, or the pod is no
// longer ready.
func (t *tables) settleMoves(clock clock) {
	if len(t.moves.due) == 0 {
		t.moves.queue = nil
		return
	}
	over := map[uint32][]model.Addr{}
	for _, m := range t.unsettledMoves(clock) {
		due, held := t.moves.due[m]
		if !held {
			continue // named twice
		}
		row := t.slices.Get(m.slice)
		e := findEndpoint(row.slice, m.addr)
		if e == nil || e.Flags&model.EndpointMoving == 0 {
			t.moves.end(m) // back, or gone
			continue
		}
		if !clock.now.Before(due) || !e.Flags.Served() || !e.Workload.State.Serving() || t.elsewhere(m, row, e) {
			t.moves.end(m)
			over[m.slice] = append(over[m.slice], m.addr)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(over)) {
		t.endMoves(id, over[id])
	}
}

// unsettledMoves lists the holds that may be over: those whose time is up and
// those of a service that is marked. Whatever else ends a hold changes a row of
// its service; the others need no look, however many there are.
func (t *tables) unsettledMoves(clock clock) (list []move) {
	q := t.moves.queue
	for ; len(q) > 0 && !clock.now.Before(q[0].due); q = q[1:] {
		if t.moves.due[q[0].move].Equal(q[0].due) {
			list = append(list, q[0].move)
		}
	}
	t.moves.queue = q
	for r := range t.dirty.services {
		for _, id := range r.slices {
			for _, a := range t.moves.held[id] {
				list = append(list, move{id, a})
			}
		}
	}
	return list
}

// end forgets a hold.
func (m *moves) end(h move) {
	delete(m.due, h)
	held := m.held[h.slice]
	if i := slices.Index(held, h.addr); i >= 0 {
		held = slices.Delete(held, i, i+1)
	}
	if len(held) == 0 {
		delete(m.held, h.slice)
	} else {
		m.held[h.slice] = held
	}
}

// endAll forgets the holds of a slice that leaves its service.
func (m *moves) endAll(id uint32) {
	for _, a := range m.held[id] {
		delete(m.due, move{id, a})
	}
	delete(m.held, id)
}

// elsewhere reports whether another slice of the same service has e.
func (t *tables) elsewhere(m move, row *sliceRow, e *model.Endpoint) bool {
	r := t.pods[row.slice.Object.Namespace][e.Workload.Name]
	if r == nil {
		return false
	}
	return slices.ContainsFunc(r.slices, func(id uint32) bool {
		other := t.slices.Get(id)
		if id == m.slice || other.service != row.service {
			return false
		}
		o := findEndpoint(other.slice, m.addr)
		return o != nil && o.Flags&model.EndpointMoving == 0
	})
}

// endMoves takes the endpoints with these addresses out of slice id.
func (t *tables) endMoves(id uint32, addrs []model.Addr) {
	row := t.slices.Get(id)
	next := *row.slice
	next.Endpoints = slices.DeleteFunc(slices.Clone(row.slice.Endpoints), func(e model.Endpoint) bool {
		return slices.Contains(addrs, e.Addr)
	})
	t.counts.Endpoints += len(next.Endpoints) - len(row.slice.Endpoints)
	gone := make([]*model.Endpoint, 0, len(addrs))
	for _, a := range addrs {
		gone = append(gone, findEndpoint(row.slice, a))
	}
	if !accountsStay(&next, gone, nil) {
		next.Accounts = accountsOf(next.Endpoints, next.Accounts)
	}
	for _, e := range gone {
		t.unlinkPod(id, &next, e)
	}
	row.slice = &next
	t.markEndpoints(row.of)
	if row.gone && len(next.Endpoints) == 0 {
		t.dropSlice(next.Object, id)
	}
}

// nextMove returns when the next hold ends; zero if none is held.
func (t *tables) nextMove() time.Time {
	q := t.moves.queue
	for len(q) > 0 {
		if due, held := t.moves.due[q[0].move]; held && due.Equal(q[0].due) {
			t.moves.queue = q
			return due
		}
		q = q[1:]
	}
	t.moves.queue = nil
	return time.Time{}
}

func findEndpoint(s *model.Slice, a model.Addr) *model.Endpoint {
	i, found := slices.BinarySearchFunc(s.Endpoints, a, func(e model.Endpoint, a model.Addr) int { return e.Addr.Compare(a) })
	if !found {
		return nil
	}
	return &s.Endpoints[i]
}
