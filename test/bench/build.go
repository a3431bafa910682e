package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"tributary/test/parts"
)

// binaries are the programs of the servers.
type binaries struct {
	paths map[string]string // by the server's name
	crds  string            // file that istiod needs in each cluster; "" without it
}

// build builds the servers, once for all runs: a checkout that changes meanwhile
// must not change what is measured.
func build(ctx context.Context, servers []string, dir string) (*binaries, error) {
	b := &binaries{paths: map[string]string{}}
	for _, name := range servers {
		var err error
		switch name {
		case "floor":
			b.paths[name], err = buildFloor(ctx, dir)
		case "tributary":
			b.paths[name], err = copyTributary(ctx, dir)
		case "istiod":
			b.paths[name], b.crds, err = parts.Istiod(ctx, say)
		}
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", name, err)
		}
	}
	return b, nil
}

func buildFloor(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "floor.bin")
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "tributary/test/bench/floor")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
}

// copyTributary builds Tributary and copies it: others that build it replace the
// file.
func copyTributary(ctx context.Context, dir string) (string, error) {
	built, err := parts.Tributary(ctx, say)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "tributary.bin")
	return binary, os.WriteFile(binary, b, 0o755)
}
