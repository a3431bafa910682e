package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Tributary builds cmd/tributary of this checkout and returns the path of the
// binary. Unlike the other parts it is built again when its source changed;
// when not, that takes a second. Flags, such as -race, make a binary of their
// own. A binary that runs is not disturbed by a new build.
func Tributary(ctx context.Context, log Log, flags ...string) (string, error) {
	source, err := beside(filepath.Join("..", ".."))
	if err != nil {
		return "", err
	}
	root, err := dir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q", source, flags))
	key := "tributary-" + hex.EncodeToString(sum[:])[:8]
	unlock, err := lock(ctx, root, key, log)
	if err != nil {
		return "", err
	}
	defer unlock()
	folder := filepath.Join(root, key)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("building tributary: %w", err)
	}
	stop := every(func(elapsed time.Duration) { log.printf("building tributary, %v", elapsed) })
	defer stop()
	// The go command leaves a binary alone whose inputs are the same, and else
	// puts a new file in its place.
	binary := filepath.Join(folder, "tributary")
	args := append([]string{"build", "-o", binary}, flags...)
	if _, err := goCommand(ctx, source, append(args, "./cmd/tributary")...); err != nil {
		return "", fmt.Errorf("building tributary: %w", err)
	}
	return binary, nil
}
