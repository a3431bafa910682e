// Command fetch brings the real programs that tests need onto this machine, so
// that tests find them there. Without arguments it fetches what the tests
// need; with arguments, the parts named.
//
//	go run ./test/parts/fetch [kubernetes] [envoy] [chromium] [crds] [istiod] [istioctl] [tributary]
//
// It decides nothing: package parts says what each part is and keeps it. The
// Makefile calls it. Parts are fetched one after the other, since a build
// takes all cores.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"tributary/test/parts"
)

// part fetches one part; what else it returns is not printed.
type part func(context.Context, parts.Log) (string, error)

var all = map[string]part{
	"kubernetes": parts.KubeAPIServer,
	"envoy":      parts.Envoy,
	"chromium":   parts.Chromium,
	"crds":       parts.IstioCRDs,
	"istiod": func(ctx context.Context, log parts.Log) (string, error) {
		binary, _, err := parts.Istiod(ctx, log)
		return binary, err
	},
	"istioctl": parts.Istioctl,
	"tributary": func(ctx context.Context, log parts.Log) (string, error) {
		return parts.Tributary(ctx, log)
	},
}

// needed is what tests need, in the order of fetching.
var needed = []string{"envoy", "chromium", "crds", "kubernetes", "istiod", "istioctl"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := fetch(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = needed
	}
	for _, name := range names {
		get, ok := all[name]
		if !ok {
			return fmt.Errorf("no part is called %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		path, err := get(ctx, func(line string) { fmt.Fprintln(os.Stderr, "parts:", line) })
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}
