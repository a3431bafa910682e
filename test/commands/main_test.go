package commands

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/test/netns"
	"tributary/test/parts"
)

// The programs under test.
var tributary, envoyBinary string

func TestMain(m *testing.M) {
	log := func(line string) { fmt.Fprintln(os.Stderr, "commands:", line) }
	var err error
	if envoyBinary, err = parts.Envoy(context.Background(), log); err != nil {
		log(err.Error())
		os.Exit(1)
	}
	if tributary, err = parts.Tributary(context.Background(), log); err != nil {
		log(err.Error())
		os.Exit(1)
	}
	netns.Enter()
	goleak.VerifyTestMain(m)
}

// command runs tributary to its end and returns what it printed.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, tributary, args...)
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	err = cmd.Run()
	return out.String(), notes.String(), err
}

// must is command for what has to work.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, notes, err := command(t, args...)
	if err != nil {
		t.Fatalf("tributary %v: %v\n%s", args, err, notes)
	}
	return out
}
