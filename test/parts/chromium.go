package parts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// chromium is where Debian's package puts the browser.
const chromium = "/usr/bin/chromium"

// Chromium returns the path of the browser, installing Debian's package if it is
// not there yet, which takes root.
func Chromium(ctx context.Context, log Log) (string, error) {
	if exists(chromium) {
		return chromium, nil
	}
	root, err := dir()
	if err != nil {
		return "", err
	}
	unlock, err := lock(ctx, root, "chromium", log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(chromium) { // the holder of the lock before us installed it
		return chromium, nil
	}
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("installing chromium: %w: it takes root", ErrUnavailable)
	}
	log.printf("installing Debian's package chromium")
	stop := every(func(elapsed time.Duration) { log.printf("installing chromium, %v", elapsed) })
	defer stop()
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "chromium"}} {
		if err := run(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get"}, args...)...); err != nil {
			return "", fmt.Errorf("installing chromium: %w: %w", ErrUnavailable, err)
		}
	}
	if _, err := exec.LookPath(chromium); err != nil {
		return "", fmt.Errorf("installing chromium: %w", err)
	}
	return chromium, nil
}
