package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tributary/debug"
	"tributary/debug/sample"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// startFleet serves the sample fleet and returns its address.
func startFleet(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(debug.New(sample.New(noon).Sources()))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// run runs the command get.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := getCommandAt(func() time.Time { return noon })
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out, notes bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), notes.String(), err
}

func TestGetTables(t *testing.T) {
	address := startFleet(t)
	for name, args := range map[string][]string{
		"clusters":       {"clusters"},
		"clusters-wide":  {"clusters", "-o", "wide"},
		"services":       {"services"},
		"services-wide":  {"svc", "-o", "wide"},
		"endpoints":      {"endpoints"},
		"endpoints-wide": {"endpoints", "reviews.shop", "-o", "wide"},
		"proxies":        {"proxies"},
		"proxies-wide":   {"proxies", "-o", "wide"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, append(args, "--http-address", address)...)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "get-"+name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if out != string(want) {
				t.Errorf("%s differs; got:\n%s", file, out)
			}
			if strings.Contains(out, "\x1b") {
				t.Error("a name reaches the terminal with its control characters")
			}
		})
	}
}

func TestGetJSON(t *testing.T) {
	out, _, err := run(t, "endpoints", "-o", "json", "-n", "store", "--http-address", "http://"+startFleet(t)+"/")
	if err != nil {
		t.Fatal(err)
	}
	var list debug.List[debug.Endpoint]
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Address != "fd00::1" || list.Total != 1 {
		t.Errorf("got %+v", list)
	}
}

func TestGetNotes(t *testing.T) {
	address := startFleet(t)
	for _, c := range []struct {
		args              []string
		out, notes, fails string
	}{
		{args: []string{"services", "-n", "nowhere"}, notes: "No services in namespace nowhere."},
		{args: []string{"services"}, out: "reviews.shop", notes: "Nothing is known yet of north, north-east, south"},
		{args: []string{"services", "cart", "nothing"}, out: "cart.shop", fails: `no services found for "nothing"`},
		{args: []string{"endpoints", "cart", "--cluster", "east"}, fails: `no endpoints found for "cart" in cluster east`},
		{args: []string{"endpoints", "--state", "held"}, out: "reviews-3"},
		{args: []string{"proxies", "cart-1"}, out: "cart-1.shop"},
		{args: []string{"proxies", "ghost"}, fails: `no proxies found for "ghost"`},
		{args: []string{"clusters", "mars"}, fails: `no clusters found for "mars"`},
		{args: []string{"pods"}, fails: `there is no "pods" to get; it is one of clusters`},
		{args: []string{"services", "-o", "xml"}, fails: `the output "xml" is none of table, wide, json, yaml`},
	} {
		out, notes, err := run(t, append(c.args, "--http-address", address)...)
		if !strings.Contains(out, c.out) || !strings.Contains(notes, c.notes) {
			t.Errorf("get %v printed %q and %q", c.args, out, notes)
		}
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("get %v: %v, want %q", c.args, err, c.fails)
		}
	}
}

func TestGetAddressFromEnvironment(t *testing.T) {
	t.Setenv(addressVariable, startFleet(t))
	if out, _, err := run(t, "clusters", "east"); err != nil || !strings.Contains(out, "east") {
		t.Errorf("%v %q", err, out)
	}
}

func TestGetUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	_, _, err = run(t, "services", "--http-address", address)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"nobody answers at http://" + address, "connection refused", "tributary serve", "--http-address", addressVariable} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not tell %q", err, want)
		}
	}
	var code interface{ ExitCode() int }
	if !errors.As(err, &code) || code.ExitCode() != exitUnreachable {
		t.Errorf("exit code of %v", err)
	}
}

func TestGetFromAStranger(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another server": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) }, "is not Tributary's HTTP page (200 OK)"},
		"another path":   {http.NotFound, "is not Tributary's HTTP page (404 Not Found)"},
		"a failure": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"limit must be small\u001b[31m"}`))
		}, "answers: limit must be small [31m"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"items":[`))
		}, "reading the answer"},
	} {
		s := httptest.NewServer(c.answer)
		_, _, err := run(t, "services", "--http-address", s.Listener.Addr().String())
		s.Close()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
