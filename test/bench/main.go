package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"tributary/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx)
	stop()
	if err != nil {
		say(err.Error())
		os.Exit(1)
	}
}

// say tells what is going on; results go to standard output.
func say(line string) { fmt.Fprintln(os.Stderr, "bench:", line) }

func bench(ctx context.Context) error {
	var o overrides
	p := plan{}
	names := flag.String("workload", "idle,churn", "`NAMES` of workloads: idle, churn, fanout, storm, storm-resume, size, pods, or all")
	servers := flag.String("server", strings.Join(serverNames, ","), "`NAMES` of servers, one at a time in turn")
	variants := flag.String("protocol", "delta", "delta, sotw or both; the floor is always delta")
	flag.IntVar(&p.repeat, "repeat", 3, "`ROUNDS`; the table shows medians")
	flag.DurationVar(&p.settle, "settle", 4*time.Second, "how long a server must be quiet before its memory is read")
	flag.DurationVar(&p.quiet, "quiet", 0, "how long to wait before each run, at most, for others to leave the machine idle")
	out := flag.String("out", "", "`FILE` to add one JSON line for each run to")
	flag.StringVar(&p.profiles, "profile", "", "`DIR` for CPU and heap profiles of tributary")
	flag.StringVar(&p.dir, "logs", "", "`DIR` for logs of the servers (default: a temporary one)")
	flag.IntVar(&o.clusters, "clusters", 0, "`N` clusters instead of the workload's")
	flag.IntVar(&o.namespaces, "namespaces", 0, "`N` namespaces instead of the workload's")
	flag.IntVar(&o.services, "services", 0, "`N` services instead of the workload's")
	flag.IntVar(&o.endpoints, "endpoints", 0, "`N` endpoints of a service in a cluster instead of the workload's")
	flag.IntVar(&o.streams, "streams", 0, "`N` streams instead of the workload's")
	flag.IntVar(&o.changes, "changes", 0, "`N` changes instead of the workload's")
	flag.Float64Var(&o.rate, "rate", 0, "changes a second instead of the workload's")
	flag.BoolVar(&o.pods, "pods", false, "a pod behind each endpoint in every workload")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is no flag", flag.Arg(0))
	}
	var err error
	if p.workloads, err = workloads(*names, o); err != nil {
		return err
	}
	if p.servers, err = choose("-server", *servers, serverNames); err != nil {
		return err
	}
	if p.protocols, err = choose("-protocol", *variants, protocols); err != nil {
		return err
	}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "tributary-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(p.dir) }() // temporary anyway
	}
	if p.dir, err = filepath.Abs(p.dir); err == nil {
		err = os.MkdirAll(p.dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("-logs: %w", err)
	}
	// Our own collections would show as delays of the server's.
	debug.SetGCPercent(400)

	var results []Result
	p.done = func(r Result) {
		results = append(results, r)
		if err := appendTo(*out, r); err != nil {
			say(err.Error())
		}
		if *out == "" {
			_ = writeJSON(os.Stdout, []Result{r}) // as to say
		} else {
			say(fmt.Sprintf("%s %s %s, round %d: p50 %.1f ms, p99 %.1f ms, CPU %.2f ms, back %.2f s, %.0f MB", r.Workload, r.Server, r.Protocol,
				r.Round, r.Last.P50, r.Last.P99, r.CPU, r.Storm, r.Memory))
		}
	}
	err = p.run(ctx)
	if len(results) > 0 {
		err = errors.Join(err, writeTable(os.Stdout, p.workloads, results))
	}
	return err
}

// choose splits names and checks them.
func choose(option, names string, known []string) ([]string, error) {
	chosen := strings.Split(names, ",")
	for _, n := range chosen {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("%s: there is no %q; there are %s", option, n, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func appendTo(file string, r Result) (err error) {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("adding a result: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return writeJSON(f, []Result{r})
}

func applyFile(ctx context.Context, c *lab.Cluster, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return c.ApplyObjects(ctx, b)
}
