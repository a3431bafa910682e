package xds

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream is the skin of one session.
type stream struct {
	server *Server
	grpc   grpc.ServerStream
	id     uint64
	peer   string
	start  time.Time

	// turn is held by whoever uses the session: the goroutine that receives, for a
	// request and its answers, and the one that waits for snapshots. It is held
	// while sending too, so a client that does not read is not read from.
	turn       sync.Mutex
	session    *session // guarded by turn
	complaints int      // refusals that were logged; guarded by turn
	// debugged is the last answer of each debug type; guarded by turn, nil if none.
	debugged map[string]debugAnswer

	// Written with turn held, read by the watchdog: when what the stream waits for
	// began, in Unix nanoseconds; 0 if it waits for nothing.
	sending   atomic.Int64
	unsettled atomic.Int64
	silent    atomic.Int64 // no request has come yet

	end   chan error // why the watchdog ends the stream
	ended bool       // it does; guarded by the server's mu

	mu     sync.Mutex
	status Proxy // guarded by mu
}

// run serves the stream until either side ends it.
func (s *Server) run(st grpc.ServerStream, delta bool) error {
	str := &stream{server: s, grpc: st, session: newSession(delta, &s.limits), start: time.Now(), end: make(chan error, 1)}
	if p, ok := peer.FromContext(st.Context()); ok {
		str.peer = p.Addr.String()
	}
	str.silent.Store(str.start.UnixNano())
	if err := s.admit(str); err != nil {
		return err
	}
	defer s.dismiss(str)

	ctx, cancel := context.WithCancelCause(st.Context())
	defer cancel(nil)
	// Both goroutines end with the stream, which ends when this returns: a Send
	// or Recv that blocks can be ended in no other way. Serve waits for them.
	s.goroutines.Go(func() { cancel(str.receive(delta)) })
	s.goroutines.Go(func() { cancel(str.follow(ctx)) })

	var err error
	select {
	case err = <-str.end:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) || st.Context().Err() != nil {
		return nil // the client is gone, which is no news
	}
	if status.Code(err) != codes.OK {
		s.log.Warn("xDS stream ended", "proxy", str.node(), "peer", str.peer, "reason", status.Convert(err).Message())
	}
	return err
}

// receive takes in requests and answers them. It does not hand them to the
// goroutine that follows: an acknowledgement, which most are, would wake that one
// for nothing.
func (str *stream) receive(delta bool) error {
	for {
		var m any
		var decode func() (request, error)
		if delta {
			d := new(deltaMessage)
			m, decode = d, d.request
		} else {
			s := new(sotwMessage)
			m, decode = s, func() (request, error) { return s.request(str.session) }
		}
		if err := str.grpc.RecvMsg(m); err != nil {
			return str.received(err)
		}
		switch m := m.(type) {
		case *deltaMessage:
			str.server.metrics.received(len(*m))
		case *sotwMessage:
			str.server.metrics.received(len(*m))
		}
		if err := str.answer(decode); err != nil {
			return err
		}
	}
}

// answer takes in a request and sends what is due then.
func (str *stream) answer(decode func() (request, error)) error {
	str.turn.Lock()
	defer str.turn.Unlock()
	r, err := decode()
	if err != nil {
		return str.received(status.Error(codes.Internal, err.Error()))
	}
	if isDebug(r.url) {
		return str.debug(r)
	}
	if err := str.take(r); err != nil {
		return err
	}
	return str.sendDue()
}

// received counts what the client sent and cannot be read. Of a request that is
// too large gRPC tells the client, in its own words, and ends the stream.
func (str *stream) received(err error) error {
	switch status.Code(err) {
	case codes.Internal:
		str.server.metrics.garbage.Inc()
		return status.Errorf(codes.InvalidArgument, "a request cannot be decoded: %s", status.Convert(err).Message())
	case codes.ResourceExhausted:
		str.server.metrics.garbage.Inc()
		str.server.log.Warn("an xDS request is too large (setting xds.maxRequestBytes)", "proxy", str.node(), "peer", str.peer,
			"limit", str.server.limits.MessageBytes, "reason", status.Convert(err).Message())
	}
	return err
}

// follow sends what is due whenever a snapshot is released.
func (str *stream) follow(ctx context.Context) error {
	wake, cancel := str.server.source.Subscribe()
	defer cancel()
	open := str.server.open
	for {
		select {
		case <-wake:
		case <-open:
			open = nil // closed for good
		case <-ctx.Done():
			return ctx.Err()
		}
		str.turn.Lock()
		err := str.sendDue()
		str.turn.Unlock()
		if err != nil {
			return err
		}
	}
}

// take takes in a request. The turn is held.
func (str *stream) take(r request) error {
	v, err := str.session.request(r)
	if v.response != nil {
		str.settled(v)
	}
	if v.stale {
		str.server.metrics.of(r.url).expired.Inc()
	}
	if err != nil {
		str.server.metrics.invalid.Inc()
	}
	str.silent.Store(0)
	str.note(r.url)
	return err
}

// sendDue sends every response that is due for the released snapshot. The turn
// is held.
func (str *stream) sendDue() error {
	snapshot := str.server.source.Released()
	if snapshot == nil || str.session.node == nil || !str.server.isOpen() {
		return nil
	}
	v := &view{renderer: &str.server.renderer, snapshot: snapshot, node: str.session.node}
	var oldest time.Time // event behind what was sent
	for {
		start := time.Now()
		r, err := str.session.next(v)
		if err != nil {
			if status.Code(err) == codes.ResourceExhausted {
				str.server.metrics.tooLarge.Inc()
			}
			return err
		}
		if r == nil {
			break
		}
		if r.since > 0 && r.since < snapshot.Revision && !r.trial {
			r.arrived = str.server.source.Arrived(r.since)
		}
		if err := str.send(r, start); err != nil {
			return err
		}
		if !r.arrived.IsZero() && (oldest.IsZero() || r.arrived.Before(oldest)) {
			oldest = r.arrived
		}
	}
	if !oldest.IsZero() {
		str.server.metrics.convergence.Observe(time.Since(oldest).Seconds())
	}
	return nil
}

// send sends r, the making of which began at start.
func (str *stream) send(r *response, start time.Time) error {
	f := encodeFrame(r, str.session.delta, str.server.identity)
	now := time.Now()
	str.sending.Store(now.UnixNano())
	err := str.grpc.SendMsg(f)
	str.sending.Store(0)
	if err != nil {
		return err
	}
	str.unsettled.CompareAndSwap(0, now.UnixNano())
	sent := time.Now()
	str.server.metrics.sent(r, f.size(), sent.Sub(now))
	str.server.metrics.of(r.url).pushTime.Observe(sent.Sub(start).Seconds())
	if r.parted {
		str.server.metrics.cut.Inc()
	}
	str.note(r.url)
	return nil
}

// settled records what the client said of a response.
func (str *stream) settled(v verdict) {
	waiting := false
	for _, w := range str.session.order {
		waiting = waiting || w.response != nil
	}
	now := time.Now()
	if waiting {
		// Another type is still open; its clock starts now, which is generous.
		str.unsettled.Store(now.UnixNano())
	} else {
		str.unsettled.Store(0)
	}
	m := str.server.metrics
	if v.failure == "" {
		if !v.response.arrived.IsZero() {
			m.acknowledged.Observe(now.Sub(v.response.arrived).Seconds())
		}
		return
	}
	m.refused(v.response.url)
	if !v.response.trial && str.complain() {
		str.server.log.Error("a proxy refused a response", "proxy", str.session.node.ID, "type", ShortType(v.response.url),
			"resources", len(v.response.resources), "reason", v.failure)
	}
	if v.condemned != nil {
		str.server.convict(str, v.response.url, v.condemned, v.failure)
	}
}

// maxComplaints bounds what is logged of one stream's refusals.
const maxComplaints = 20

// complain reports whether one more refusal may be logged. The turn is held.
func (str *stream) complain() bool {
	str.complaints++
	if str.complaints == maxComplaints+1 {
		str.server.log.Error("a proxy goes on refusing; it is only counted from here on", "proxy", str.session.node.ID)
	}
	return str.complaints <= maxComplaints
}

// overdue returns why the stream must end at time now; nil if it need not.
func (str *stream) overdue(now time.Time) error {
	l := &str.server.limits
	since := func(a *atomic.Int64) time.Duration {
		t := a.Load()
		if t == 0 {
			return 0
		}
		return now.Sub(time.Unix(0, t))
	}
	switch {
	case since(&str.sending) > l.SendTimeout:
		str.server.metrics.writeTimeouts.Inc()
		return status.Errorf(codes.DeadlineExceeded, "the client has not read for %v (setting xds.sendTimeout)", l.SendTimeout)
	case since(&str.unsettled) > l.AckTimeout && str.server.isOpen():
		str.server.metrics.ackTimeouts.Inc()
		return status.Errorf(codes.DeadlineExceeded, "the client has neither acknowledged nor refused a response for %v (setting xds.ackTimeout)", l.AckTimeout)
	case since(&str.silent) > l.FirstRequestTimeout:
		str.server.metrics.silent.Inc()
		return status.Errorf(codes.DeadlineExceeded, "no request within %v of the stream's start (setting xds.firstRequestTimeout)", l.FirstRequestTimeout)
	}
	return nil
}
