package browser

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"tributary/test/netns"
	"tributary/test/parts"
)

// The programs under test.
var tributary, chromium string

func TestMain(m *testing.M) {
	log := func(line string) { fmt.Fprintln(os.Stderr, "browser:", line) }
	var err error
	if chromium, err = parts.Chromium(context.Background(), log); err != nil {
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
