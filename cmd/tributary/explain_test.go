package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tributary/debug"
)

// tributary runs the whole command line.
func tributary(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := rootCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestExplain(t *testing.T) {
	at := "--http-address=" + startFleet(t)
	out, err := tributary(t, "explain", "reviews.shop", "10.1.1.3", at)
	if err != nil || !strings.HasPrefix(out, "reviews.shop.svc.cluster.local: 10.1.1.3 is held: its pod is not known yet") || strings.Contains(out, "10.1.1.1 ") {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, format := range []string{"json", "yaml"} {
		out, err := tributary(t, "explain", "reviews", "reviews-3", "-n", "shop", "-o", format, at)
		if format == "yaml" {
			b, err := yaml.YAMLToJSON([]byte(out))
			if err != nil {
				t.Error(err)
			}
			out = string(b)
		}
		var e debug.Explanation
		if err2 := json.Unmarshal([]byte(out), &e); err != nil || err2 != nil || len(e.Services) != 1 || len(e.Services[0].Endpoints) != 1 || e.Services[0].Endpoints[0].State != "held" {
			t.Errorf("%s: %v %v\n%s", format, err, err2, out)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"revews"}, "Did you mean reviews.shop?"},
		{[]string{"reviews", "10.9.9.9"}, "has no endpoint 10.9.9.9"},
		{[]string{"reviews", "-o", "xml"}, "none of text, json and yaml"},
		{[]string{"revews", "-o", "json"}, `no cluster that was heard has a service "revews"`},
		{nil, "explain wants a HOST"},
	} {
		if _, err := tributary(t, append(append([]string{"explain"}, c.args...), at)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("explain %v: %v, want %q", c.args, err, c.want)
		}
	}
}

// What answers and is not Tributary's page is told from nobody.
func TestWrongAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("\x00\x00\x0c\x04\x00\x00\x00\x00\x00")) // as a server of HTTP/2, such as that of xDS
			_, _ = c.Read(make([]byte, 1000))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = l.Close()
		<-done
	})
	for address, want := range map[string]string{
		l.Addr().String(): "is it the xDS address?",
		"127.0.0.1":       `"127.0.0.1" has no port (--http-address`,
		"[::1]":           `"[::1]" has no port (--http-address`,
		"localhost:x":     `"localhost:x" is not an address (--http-address`,
	} {
		for _, args := range [][]string{{"get", "clusters"}, {"explain", "a"}} {
			if _, err := tributary(t, append(args, "--http-address="+address)...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v at %s: %v, want %q", args, address, err, want)
			}
		}
	}
}

// The script for bash works in a bash that has nothing but itself.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash on this machine")
	}
	dir := t.TempDir()
	script, err := tributary(t, "completion", "bash")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "script", script)
	// It stands for the binary and shows what it was asked.
	writeFile(t, dir, "tributary", "#!/bin/sh\necho \"$#:$*\" | tr ' ' _ >asked\nprintf 'cart.shop:80\\tx\\ncart.store\\ty\\n:4\\n'\n")
	if err := os.Chmod(filepath.Join(dir, "tributary"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"tributary explain ":             "3:__complete_explain_|cart.shop:80  (x) cart.store    (y)",
		"tributary explain cart.sh":      "3:__complete_explain_cart.sh|cart.shop:80",
		"tributary explain cart.shop:":   "3:__complete_explain_cart.shop:|80",
		"tributary get services -n shop": "5:__complete_get_services_-n_shop|",
	} {
		cmd := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-c", `enable -n compopt; . ./script; COLUMNS=80 COMP_TYPE=63 COMP_LINE=$1 COMP_POINT=${#1}; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); __start_tributary; echo "$(cat asked)|${COMPREPLY[*]}"`, "bash", line)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %v %q, want %q", line, err, got, want)
		}
	}
}

// A shell is offered what the running server knows, and no name that it could
// take for something else.
func TestCompletion(t *testing.T) {
	t.Setenv(addressVariable, startFleet(t))
	for line, want := range map[string]string{
		"get cl":                            "clusters",
		"get clusters ":                     "east north north-east old south west",
		"get clusters north ":               "east north-east old south west",
		"get services r":                    "reviews.shop",
		"get services reviews.shop.s":       "reviews.shop.svc.cluster.local",
		"get endpoints ":                    "cart.shop database.store empty.shop reviews.shop",
		"get endpoints -n store ":           "database.store",
		"get endpoints --cluster w":         "west",
		"get services --namespace s":        "shop store",
		"get endpoints --state t":           "terminating",
		"get proxies c":                     "cart-1.shop",
		"get services -o y":                 "yaml",
		"explain da":                        "database.store",
		"explain reviews.shop ":             "",
		"explain -o j":                      "json",
		"bootstrap ":                        "envoy grpc",
		"get services --http-address=:1 re": "",
	} {
		args := strings.Split(line, " ")
		out, err := tributary(t, append([]string{"__completeNoDesc"}, args...)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []string
		for _, l := range strings.Split(out, "\n") {
			if strings.HasPrefix(l, ":") {
				break
			}
			if l != "" && strings.HasPrefix(l, args[len(args)-1]) { // as shells do
				got = append(got, l)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", line, got, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, err := tributary(t, "completion", shell); err != nil || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %v", shell, err)
		}
	}
}

func TestGetYAML(t *testing.T) {
	at := startFleet(t)
	asJSON, _, err := run(t, "services", "-o", "json", "--http-address", at)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, _, err := run(t, "services", "-o", "yaml", "--http-address", at)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := yaml.Unmarshal([]byte(asJSON), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(asYAML), &b); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !bytes.Equal(x, y) || strings.HasPrefix(asYAML, "{") {
		t.Errorf("YAML says something else:\n%s", asYAML)
	}
}

func TestGetSorted(t *testing.T) {
	at := startFleet(t)
	for column, want := range map[string]string{
		"host": "cart database empty evil reviews", "served": "empty evil database cart reviews", "AGE": "evil cart database empty reviews", "revision": "cart database empty evil reviews",
	} {
		out, _, err := run(t, "services", "--sort-by", column, "-o", "json", "--http-address", at)
		if err != nil {
			t.Fatal(err)
		}
		var list debug.List[debug.Service]
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range list.Items {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: %s, want %s", column, got, want)
		}
	}
	if _, _, err := run(t, "services", "--sort-by", "colour", "--http-address", at); err == nil || !strings.Contains(err.Error(), "there are NAMESPACE, HOST") {
		t.Errorf("an unknown column: %v", err)
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"9s", "2m", -1}, {"3m20s", "200s", 0}, {"2/10", "10/10", -1}, {"a9", "a10", -1}, {"007", "7", 0}, {"", "x", -1}, {"10.0.0.9", "10.0.0.10", -1}} {
		if got := compareCells(c.a, c.b); got != c.want || compareCells(c.b, c.a) != -c.want {
			t.Errorf("%q and %q: %d", c.a, c.b, got)
		}
	}
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
