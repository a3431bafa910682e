package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"tributary/debug"
)

// Pace of a watch. A server that says nothing for longer than watchSilence,
// which is three of its heartbeats, is gone.
const (
	watchRetry   = 250 * time.Millisecond // after a connection is lost; doubled each time
	watchRetries = 5 * time.Second        // at most
	watchSilence = 45 * time.Second
)

// streamClient reads streams of events, which have no end.
var streamClient = &http.Client{
	Transport: &http.Transport{Proxy: nil, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, ResponseHeaderTimeout: 30 * time.Second},
}

// What became of an item.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// watcher shows a list, and then each item that comes, changes or goes. It
// listens to the server's events, which say that something changed, and reads
// the list again. It goes on when the server ends and comes back.
type watcher[T any] struct {
	options    *getOptions
	kind       string
	table      *tableOf[T]
	read       func(context.Context) (debug.List[T], error)
	out, notes io.Writer

	begun  time.Time
	last   map[string]item[T]
	widths []int
	told   string // the newest note
	mark   string // of what the list was as of
	again  bool   // the connection was lost since the list was read
}

type item[T any] struct {
	value T
	says  string // its row, without what changes by itself
}

// run returns nil when ctx ends, as by Ctrl-C. It fails if the server cannot be
// reached at first.
func (w *watcher[T]) run(ctx context.Context) error {
	w.begun = w.options.now()
	for retry := watchRetry; ; retry = min(2*retry, watchRetries) {
		heard, err := w.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user ended it
		}
		if w.last == nil {
			return err
		}
		if heard {
			retry = watchRetry
		}
		w.note("The connection is lost, trying again: " + firstLine(err))
		w.again = true
		timer := time.NewTimer(retry)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// note tells the person something, once.
func (w *watcher[T]) note(text string) {
	if text != w.told {
		fmt.Fprintln(w.notes, printable(text))
		w.told = text
	}
}

// follow listens until the connection ends, and returns why. heard tells that
// the server said something.
func (w *watcher[T]) follow(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, base, err := open(ctx, streamClient, w.options.address, "/api/v1/events")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var body []byte
	if resp.StatusCode != http.StatusOK {
		if body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<16)); err != nil {
			return false, err
		}
	}
	if err := failureOf(resp, body, base, "text/event-stream"); err != nil {
		return false, err
	}
	silent := time.AfterFunc(watchSilence, func() { cancel(fmt.Errorf("nothing was heard of it for %v", watchSilence)) })
	defer silent.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		silent.Reset(watchSilence)
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e debug.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return heard, fmt.Errorf("reading an event: %w", err)
		}
		heard = true
		if err := w.event(ctx, e); err != nil {
			return heard, err
		}
	}
	err = errors.Join(lines.Err(), context.Cause(ctx))
	if err == nil {
		err = errors.New("the server has ended it")
	}
	return heard, err
}

// event reads the list again if e says that it may have changed. A server that
// has just come back is let read its clusters first: what it does not know yet
// has not gone.
func (w *watcher[T]) event(ctx context.Context, e debug.Event) error {
	mark := fmt.Sprint(e.Revision)
	switch w.kind {
	case "clusters":
		mark += e.ClustersMark
	case "proxies":
		mark = e.ProxiesMark
	}
	if w.again && !e.Complete {
		w.note("The server is back and reads its clusters.")
		return nil
	}
	if !w.again && w.last != nil && mark == w.mark {
		return nil
	}
	list, err := w.read(ctx)
	if err != nil {
		return err
	}
	if w.again {
		w.again = false
		w.note("The server is back.")
		w.told = ""
	}
	w.mark = mark
	if len(list.Unheard) > 0 && w.kind != "clusters" {
		w.note("Nothing is known yet of " + strings.Join(list.Unheard, ", ") + ": what is there is missing here.")
	}
	return w.show(list.Items)
}

// show writes how the items differ from those that were shown last.
func (w *watcher[T]) show(items []T) error {
	next := make(map[string]item[T], len(items))
	var changes []change[T]
	for _, v := range items {
		key, i := w.table.key(v), item[T]{v, w.says(v)}
		next[key] = i
		switch was, there := w.last[key]; {
		case !there:
			changes = append(changes, change[T]{added, v})
		case was.says != i.says:
			changes = append(changes, change[T]{modified, v})
		}
	}
	var gone []string
	for key := range w.last {
		if _, there := next[key]; !there {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	for _, key := range gone {
		changes = append(changes, change[T]{deleted, w.last[key].value})
	}
	first := w.last == nil
	w.last = next
	return w.write(changes, first)
}

// change is an item and what became of it; also what is written of it as JSON or
// YAML.
type change[T any] struct {
	Type   string `json:"type"`
	Object T      `json:"object"`
}

// says returns what is shown of an item, but for what changes by itself.
func (w *watcher[T]) says(v T) string {
	wide := w.options.output != "table"
	heads, cells := w.table.heads(wide), w.table.row(v, wide, w.begun)
	for i, h := range heads {
		if moving[h] {
			cells[i] = ""
		}
	}
	return strings.Join(cells, "\x00")
}

func (w *watcher[T]) write(changes []change[T], first bool) error {
	if !w.options.table() {
		for _, c := range changes {
			if w.options.output == "yaml" {
				if _, err := io.WriteString(w.out, "---\n"); err != nil {
					return fmt.Errorf("writing a change: %w", err)
				}
				if err := w.options.encode(w.out, c); err != nil {
					return err
				}
				continue
			}
			e := json.NewEncoder(w.out) // one line each
			e.SetEscapeHTML(false)
			if err := e.Encode(c); err != nil {
				return fmt.Errorf("writing a change: %w", err)
			}
		}
		return nil
	}
	var rows [][]string
	if first {
		w.widths = []int{len(modified)}
		rows = append(rows, append([]string{"EVENT"}, w.table.heads(w.options.wide())...))
	}
	for _, c := range changes {
		rows = append(rows, append([]string{c.Type}, w.table.row(c.Object, w.options.wide(), w.options.now())...))
	}
	return w.rows(rows)
}

// rows writes rows below those that are there: columns are as wide as they were,
// or wider.
func (w *watcher[T]) rows(rows [][]string) error {
	for _, row := range rows {
		for i, c := range row {
			if c = printable(c); c == "" {
				c = "-"
			}
			row[i] = c
			if i == len(w.widths) {
				w.widths = append(w.widths, 0)
			}
			w.widths[i] = max(w.widths[i], len([]rune(c)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", w.widths[i]-len([]rune(c))+3))
			}
		}
		b.WriteByte('\n')
	}
	if _, err := io.WriteString(w.out, b.String()); err != nil {
		return fmt.Errorf("writing a change: %w", err)
	}
	return nil
}
