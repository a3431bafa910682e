package backend

import (
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get asks the backend once, on a connection of its own.
func get(t *testing.T, b *Backend) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + b.Addr())
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestBackend(t *testing.T) {
	b := Start(t, "127.0.0.1:0", "one")
	addr := b.Addr()
	for range 2 {
		if body, err := get(t, b); err != nil || body != "one" {
			t.Errorf("got %q, %v; want its name", body, err)
		}
	}
	if err := b.Start(); err == nil {
		t.Error("a running backend was started")
	}
	b.Stop()
	b.Stop()
	if body, err := get(t, b); err == nil {
		t.Errorf("a stopped backend answered %q", body)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	if body, err := get(t, b); err != nil || body != "one" {
		t.Errorf("after Stop and Start: %q, %v", body, err)
	}
	if b.Addr() != addr || b.Count() != 3 {
		t.Errorf("address %s, count %d; want %s and 3", b.Addr(), b.Count(), addr)
	}
}
