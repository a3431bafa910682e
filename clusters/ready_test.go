package clusters

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// WaitReady returns at the moment at which Ready would say so, not later.
func TestWaitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.silent["dead/1"], w.silent["slow/1"] = true, true
		w.api.Put("secrets", secret("s", 1, map[string]string{"dead": goodKubeconfig("a"), "slow": goodKubeconfig("a"), "well": goodKubeconfig("a")}))
		began := time.Now()
		var took time.Duration
		go func() {
			if err := w.manager.WaitReady(t.Context()); err != nil {
				t.Error(err)
			}
			took = time.Since(began)
		}()
		given, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := w.manager.WaitReady(given); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		w.run()
		time.Sleep(10*time.Second + 3*time.Millisecond)
		w.finishes("slow", 1)
		time.Sleep(time.Minute)
		if want := 10*time.Second + DefaultSyncTimeout; took != want { // it ran for 10 s less
			t.Errorf("ready after %v, want %v", took, want)
		}
		if err := w.manager.WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		w.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.silent["slow/1"] = true
		w.api.Put("secrets", secret("s", 1, map[string]string{"slow": goodKubeconfig("a")}))
		w.run()
		time.Sleep(1234 * time.Millisecond)
		began := time.Now()
		go w.finishes("slow", 1)
		if err := w.manager.WaitReady(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("ready after %v, error %v", time.Since(began), err)
		}
		w.stop()
	})
}
