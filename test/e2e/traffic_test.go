package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tributary/test/tb"
)

func fetch(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// traffic is a client that sends requests through a proxy, one after the
// other, and remembers who answered and what failed.
type traffic struct {
	name string
	url  string
	host string
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	answers  map[string]int // since the last reset
	failures []string       // since the start
	sent     int
}

// startTraffic sends requests until the test ends.
func startTraffic(t *testing.T, name, proxy, host string) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{name: name, url: "http://" + proxy + "/", host: host, stop: cancel, done: make(chan struct{}), answers: map[string]int{}}
	go tr.run(ctx)
	t.Cleanup(tr.end)
	return tr
}

func (tr *traffic) end() {
	tr.stop()
	<-tr.done
}

func (tr *traffic) run(ctx context.Context) {
	defer close(tr.done)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	pace := time.NewTicker(2 * time.Millisecond) // bounds the load on the machine
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, tr.url, nil)
		if err != nil {
			tr.record("", err)
			return
		}
		req.Host = tr.host
		resp, err := client.Do(req)
		if ctx.Err() != nil {
			if err == nil {
				resp.Body.Close()
			}
			return
		}
		if err != nil {
			tr.record("", err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, body)
		}
		tr.record(string(body), err)
	}
}

func (tr *traffic) record(who string, err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.sent++
	if err != nil {
		tr.failures = append(tr.failures, fmt.Sprintf("request %d at %s: %v", tr.sent, time.Now().Format("15:04:05.000"), err))
		return
	}
	tr.answers[who]++
}

// waitAnswers waits until just these backends have answered a round of
// requests, each at least once, and nobody else.
func (tr *traffic) waitAnswers(t tb.T, timeout time.Duration, want ...string) {
	t.Helper()
	tb.Eventually(t, timeout, fmt.Sprintf("%s to be answered by %v alone", tr.name, want), func(ctx context.Context) error {
		tr.mu.Lock()
		clear(tr.answers)
		tr.mu.Unlock()
		var got []string
		err := tb.Until(withTimeout(ctx, 3*time.Second), func(context.Context) error {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			n := 0
			for _, c := range tr.answers {
				n += c
			}
			got = slices.Sorted(maps.Keys(tr.answers))
			if n < 40 {
				return fmt.Errorf("only %d answers", n)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("answered by %v", got)
		}
		return nil
	})
}

func withTimeout(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// noFailures fails the test if a request has failed so far.
func (tr *traffic) noFailures(t *testing.T, when string) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.failures) > 0 {
		t.Errorf("%s: %d of %d requests failed %s:\n%s", tr.name, len(tr.failures), tr.sent, when, strings.Join(tr.failures[:min(5, len(tr.failures))], "\n"))
	}
}
