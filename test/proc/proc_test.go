package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/test/tb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell starts a shell script.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Options{Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// wrote is the condition that the process has written a text.
func wrote(p *Process, text string) func(context.Context) error {
	return func(context.Context) error {
		if !strings.Contains(p.Log(), text) {
			return errors.New("not written: " + text)
		}
		return nil
	}
}

func TestStopIsPolite(t *testing.T) {
	p := shell(t, `trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done`)
	if err := p.Ready(t.Context(), nil, wrote(p, "up")); err != nil {
		t.Fatal(err)
	}
	if p.Err() != nil || p.ExitCode() != -1 {
		t.Errorf("while it runs: Err = %v, ExitCode = %d", p.Err(), p.ExitCode())
	}
	if err := p.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if p.ExitCode() != 3 || !strings.Contains(p.Log(), "bye") {
		t.Errorf("exit code %d, log %q; want 3 and bye", p.ExitCode(), p.Log())
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	p := shell(t, `trap '' TERM; echo up; while :; do sleep 0.01; done`)
	if err := p.Ready(t.Context(), nil, wrote(p, "up")); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(50 * time.Millisecond); err == nil {
		t.Error("Stop of a process that ignores SIGTERM returned no error")
	}
	select {
	case <-p.Done():
	default:
		t.Error("the process still runs after Stop")
	}
}

func TestReadyFailsWithTheLogWhenTheProcessEnds(t *testing.T) {
	p := shell(t, `echo no such flag; exit 1`)
	err := p.Ready(t.Context(), nil, func(context.Context) error { return errors.New("not up") })
	if err == nil || !strings.Contains(err.Error(), "no such flag") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("Ready = %v, want the exit status and the log", err)
	}
}

func TestPauseAndResume(t *testing.T) {
	p := shell(t, `while :; do echo . ; sleep 0.01; done`)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	size := len(p.Log())
	if err := p.Pause(); err != nil {
		t.Errorf("pausing a paused process: %v", err)
	}
	if now := len(p.Log()); now != size {
		t.Errorf("a paused process wrote %d bytes", now-size)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	tb.Eventually(t, 5*time.Second, "the process to go on", func(context.Context) error {
		if len(p.Log()) <= size {
			return errors.New("nothing new in its log")
		}
		return nil
	})
}

func TestStartTellsWhatIsMissing(t *testing.T) {
	_, err := Start(Options{Path: "/nowhere/program", LogFile: filepath.Join(t.TempDir(), "log")})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "starting program") {
		t.Errorf("Start = %v, want that the program is missing", err)
	}
}
