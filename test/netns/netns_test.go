package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"tributary/test/backend"
	"tributary/test/tb"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(nestedVariable); part != "" {
		Enter()
		os.Exit(act(part))
	}
	Main(m, "10.1.0.1", "10.2.0.1", "fd00::1")
}

func get(addr string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Get("http://" + addr)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestAddressesAreReal(t *testing.T) {
	if err := AddAddress("10.3.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := AddAddress("10.3.0.1"); err != nil {
		t.Errorf("adding an address twice: %v", err)
	}
	for _, ip := range []string{"127.0.0.1", "10.1.0.1", "10.2.0.1", "10.3.0.1", "fd00::1"} {
		b := backend.Start(t, net.JoinHostPort(ip, "8080"), ip)
		if body, err := get(b.Addr()); err != nil || body != ip {
			t.Errorf("GET %s = %q, %v", b.Addr(), body, err)
		}
	}
	if err := RemoveAddress("10.3.0.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := get("10.3.0.1:8080"); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("GET at a removed address: %v, want no route", err)
	}
	if err := AddAddress("10.3.0.1.5"); err == nil {
		t.Error("a bad address was added")
	}
}

func TestNothingElseIsHere(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Name != "lo" {
			t.Errorf("interface %s of the machine is up in here", i.Name)
		}
	}
	if os.Getppid() != 1 || os.Getpid() > 100 {
		t.Errorf("pid %d, parent %d: want a process namespace of our own", os.Getpid(), os.Getppid())
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != fmt.Sprint(os.Getpid()) {
		t.Errorf("/proc/self is %s (%v), pid %d: want the /proc of our namespace", self, err, os.Getpid())
	}
}

// Orphans go to process 1 inside, and must not stay as zombies.
func TestOrphansAreReaped(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 0.01 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan := "/proc/" + strings.TrimSpace(string(out))
	tb.Eventually(t, 5*time.Second, "the orphan to be gone", func(context.Context) error {
		if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %v", orphan, err)
		}
		return nil
	})
}

// nestedVariable has this binary act one of the parts below, once it is inside.
const nestedVariable = "NETNS_TEST_NESTED"

// act is what a nested run does in place of tests.
func act(part string) int {
	fmt.Println("acting", part, Inside())
	switch part {
	case "fail":
		return 7
	case "be killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "wait":
		select {}
	}
	return 0
}

// nested prepares this binary to run once more from the outermost role: within
// our namespaces, others nest.
func nested(part string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=", nestedVariable+"="+part)
	return cmd
}

func TestResultsReachTheOutside(t *testing.T) {
	for part, code := range map[string]int{"pass": 0, "fail": 7, "be killed": 128 + 9} {
		cmd := nested(part)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got, want := string(out), "acting "+part+" true\n"; got != want || cmd.ProcessState.ExitCode() != code {
			t.Errorf("output %q, exit code %d; want %q and %d", got, cmd.ProcessState.ExitCode(), want, code)
		}
	}
}

func TestWithoutRootItFailsAndSaysWhy(t *testing.T) {
	cmd := nested("pass")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "need root") {
		t.Errorf("output %q, %v; want exit code 1 and the need for root", out, err)
	}
}

// A signal to the outer process, as go test sends it after a timeout, must
// reach the tests.
func TestSignalsReachTheInside(t *testing.T) {
	cmd := nested("wait")
	out := start(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if rest := untilTheEnd(t, out); !strings.Contains(rest, "SIGQUIT") || !strings.Contains(rest, "netns.act") {
		t.Errorf("after SIGQUIT it said %q, want the goroutines of the inner process", rest)
	}
}

// The end of the outer process, however hard, must end what runs inside.
func TestNothingOutlivesTheOuterProcess(t *testing.T) {
	cmd := nested("wait")
	out := start(t, cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	untilTheEnd(t, out)
}

// start starts a nested run and waits until it is inside. All its processes
// hold what is returned, which ends when the last one is gone.
func start(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // how it ends is what the test looks at
		out.Close()
	})
	if _, err := out.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	return out
}

func untilTheEnd(t *testing.T, out *os.File) string {
	t.Helper()
	if err := out.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Errorf("processes inside still run: %v", err)
	}
	return string(rest)
}
