package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/test/bench/dataset"
	"tributary/test/bench/fleet"
	"tributary/test/lab"
)

// secretNamespace is where control planes look for the other clusters.
const secretNamespace = "istio-system"

// protocols are the variants of ADS. The floor speaks only the first.
var protocols = []string{"delta", "sotw"}

// plan is all that is to be measured.
type plan struct {
	workloads []workload
	servers   []string
	protocols []string
	repeat    int
	settle    time.Duration
	quiet     time.Duration // how long to wait for a quiet machine at most
	profiles  string        // folder; "" without
	dir       string        // of logs and data

	built *binaries

	done func(Result) // called with each result as it comes
}

// run measures everything: for each set of data on API servers of its own, round
// after round, workload by workload, the servers in turn.
func (p *plan) run(ctx context.Context) error {
	var err error
	if p.built, err = build(ctx, p.servers, p.dir); err != nil {
		return err
	}
	var failed error
	for first := 0; first < len(p.workloads); {
		end := first + 1
		for end < len(p.workloads) && p.workloads[end].Data == p.workloads[first].Data {
			end++
		}
		err := p.onData(ctx, p.workloads[first:end])
		if ctx.Err() != nil {
			return err
		}
		failed = errors.Join(failed, err)
		first = end
	}
	return failed
}

// onData measures workloads that have the same data.
func (p *plan) onData(ctx context.Context, group []workload) (err error) {
	shape := group[0].Data
	l, err := p.startLab(ctx, shape.Clusters)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var clusters []dataset.Cluster
	for _, c := range l.Clusters() {
		clusters = append(clusters, dataset.Cluster{ID: c.ID, Client: c.Client()})
	}
	begin := time.Now()
	data, err := dataset.Fill(ctx, shape, clusters)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("filled %d clusters with %d services of %d endpoints in %.0f s", shape.Clusters, shape.Services, shape.Endpoints, time.Since(begin).Seconds()))
	var failed error
	for round := range p.repeat {
		for _, w := range group {
			for _, name := range p.servers {
				for _, protocol := range p.protocols {
					if name == "floor" && protocol != "delta" {
						continue
					}
					if err := data.Restore(ctx); err != nil {
						return err
					}
					if err := waitQuiet(ctx, p.quiet); err != nil {
						return err
					}
					r := Result{
						Workload: w.Name, Server: name, Protocol: protocol, Round: round + 1, Time: time.Now().UTC().Truncate(time.Second),
						Clusters: shape.Clusters, Services: shape.Services, Endpoints: shape.Endpoints, Pods: shape.Pods,
						Streams: w.Streams, Rate: w.Rate,
					}
					if err := p.measure(ctx, l, data, w, &r); err != nil {
						err = fmt.Errorf("measuring %s of %s (%s): %w", w.Name, name, protocol, err)
						if ctx.Err() != nil {
							return err
						}
						// The other servers have done nothing wrong.
						say(err.Error())
						failed = errors.Join(failed, err)
						continue
					}
					p.done(r)
				}
			}
		}
	}
	return failed
}

// measure starts a server, measures it and ends it.
func (p *plan) measure(ctx context.Context, l *lab.Lab, data *dataset.Data, w workload, r *Result) (err error) {
	run := fmt.Sprintf("%s-%s-%s-%d", w.Name, r.Server, r.Protocol, r.Round)
	s, err := p.built.start(ctx, r.Server, l, filepath.Join(p.dir, run))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nthe server's log ends:\n%s", err, s.proc.Tail(10))
		}
		err = errors.Join(err, s.stop())
	}()
	var ids []string
	for _, c := range l.Clusters() {
		ids = append(ids, c.ID)
	}
	m := &measurement{
		workload: w, server: s, data: data, settle: p.settle, result: r,
		fleet: fleet.New(fleet.Options{
			Address: s.xds, Delta: r.Protocol == "delta", Streams: w.Streams, Names: data.Names(), ClusterIDs: ids,
			Namespace: dataset.NamespacePrefix + "0",
		}),
	}
	if p.profiles != "" {
		m.profiles = &profiles{dir: p.profiles, name: run}
		r.Profiled = s.http != ""
	}
	return m.run(ctx)
}

// startLab starts the API servers, with what control planes look for there.
func (p *plan) startLab(ctx context.Context, clusters int) (l *lab.Lab, err error) {
	o := lab.Options{Log: func(line string) {
		line, _, _ = strings.Cut(line, "\n") // the rest is what each part of an API server says
		say(line)
	}}
	for i := range clusters {
		o.Clusters = append(o.Clusters, fmt.Sprintf("c%d", i))
	}
	if l, err = lab.New(ctx, o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	for i, c := range l.Clusters() {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secretNamespace}}
		if _, err := c.Client().CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return l, fmt.Errorf("preparing cluster %s: %w", c.ID, err)
		}
		if p.built.crds != "" {
			if err := applyFile(ctx, c, p.built.crds); err != nil {
				return l, fmt.Errorf("preparing cluster %s: %w", c.ID, err)
			}
		}
		if i == 0 {
			continue
		}
		secrets := l.Clusters()[0].Client().CoreV1().Secrets(secretNamespace)
		if _, err := secrets.Create(ctx, c.RemoteSecret(secretNamespace), metav1.CreateOptions{}); err != nil {
			return l, fmt.Errorf("joining cluster %s: %w", c.ID, err)
		}
	}
	return l, nil
}
