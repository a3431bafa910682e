package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

func logLevel(s string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil || !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(s)) {
		return l, fmt.Errorf("must be debug, info, warn or error, not %q", s)
	}
	return l, nil
}

// newLogger returns the process's logger and makes client-go use it as well.
func newLogger(c LogConfig, out io.Writer) *slog.Logger {
	level, _ := logLevel(c.Level) // validated before
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(out, o)
	if c.Format == "json" {
		h = slog.NewJSONHandler(out, o)
	}
	log := slog.New(h)
	// What client-go has to say about an unreachable cluster is told once, by
	// the cluster's state, and not again with each retry.
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelError})))
	return log
}

// listErrors writes several errors one below the other.
func listErrors(errs []error) string {
	if len(errs) == 1 {
		return errs[0].Error()
	}
	lines := make([]string, 0, len(errs))
	for _, err := range errs {
		lines = append(lines, "  "+err.Error())
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d settings are wrong:\n%s", len(errs), strings.Join(lines, "\n"))
}
