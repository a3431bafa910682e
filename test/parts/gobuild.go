package parts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// module is a folder with a go.mod of its own beside this file, and what to
// build from it.
type module struct {
	folder   string   // beside this file
	name     string   // of the part
	version  string   // of the part, as in the folder's go.mod
	flags    []string // of go build
	packages []string // to build
}

// build builds all packages of the module once and returns the folder of the
// binaries. more, if not nil, adds to it.
func (m module) build(ctx context.Context, log Log, more func(source, folder string) error) (string, error) {
	source, err := beside(m.folder)
	if err != nil {
		return "", err
	}
	key, err := m.key(source)
	if err != nil {
		return "", err
	}
	return once(ctx, key, log, func(folder string) error {
		log.printf("building %s %s from Go modules; the first time this takes minutes", m.name, m.version)
		args := append([]string{"build", "-o", folder + string(filepath.Separator)}, m.flags...)
		stop := every(func(elapsed time.Duration) { log.printf("building %s, %v", m.name, elapsed) })
		_, err := goCommand(ctx, source, append(args, m.packages...)...)
		stop()
		if err != nil {
			return fmt.Errorf("building %s: %w", m.name, err)
		}
		if more == nil {
			return nil
		}
		return more(source, folder)
	})
}

// key names the module's version, the compiler's, and a hash of all else that
// the binaries depend on.
func (m module) key(source string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("reading what %s is built from: %w", m.name, err)
		}
		h.Write(b)
	}
	fmt.Fprintf(h, "%q %q", m.flags, m.packages)
	return fmt.Sprintf("%s-%s-%s-%s", m.name, m.version, goVersion(), hex.EncodeToString(h.Sum(nil))[:8]), nil
}

func goVersion() string { return strings.Fields(runtime.Version())[0] }

// beside returns a folder in the source of this package. It is found by the
// path that the compiler recorded or, in a binary built without paths, from
// the working directory upwards.
func beside(name string) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if folder := filepath.Join(filepath.Dir(file), name); exists(folder) {
			return folder, nil
		}
	}
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the source of the parts: %w", err)
	}
	for {
		if folder := filepath.Join(at, "test", "parts", name); exists(folder) {
			return folder, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("finding the source of the parts: run this within a checkout of Tributary")
		}
		at = up
	}
}

// goCommand runs the go command in a folder and returns its standard output.
// The environment's flags are replaced: flags of the calling test run, such as
// -race or -modfile, are not meant for parts.
func goCommand(ctx context.Context, folder string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off", "GO111MODULE=on")
	// An interrupted go command ends its compilers and removes its files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, tail(stderr.String(), 20))
	}
	return out, nil
}

// tail returns the last n lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
