package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"tributary/aggregate"
	"tributary/clusters/kube"
	"tributary/model"
)

// validation is what was checked and what was found.
type validation struct {
	Configurations int            `json:"configurations"`
	Clusters       int            `json:"clusters"`
	Objects        int            `json:"objects"` // of manifests
	Errors         []kube.Finding `json:"errors"`
	Warnings       []kube.Finding `json:"warnings"`
}

func validateCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Check configuration files and manifests offline",
		Long: `Check configuration files, and manifests as "serve --fleet" reads them. Nothing
is contacted. Errors are what cannot be used, and make the exit code 1; warnings
are what is used as it is, and is surely not meant.

A FILE is a configuration, or manifests if it has objects of Kubernetes; all such
files together are one cluster. A DIR with manifests is a cluster; one with
directories is a fleet, and each of them a cluster.`,
		Example: `  tributary validate config.yaml
  tributary validate examples/fleet
  tributary validate -o json east/ west/`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text, json or yaml")
	complete(cmd, "output", "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if output != "text" && output != "json" && output != "yaml" {
			return fmt.Errorf("the output %q is none of text, json and yaml (-o)", output)
		}
		v := validation{Errors: []kube.Finding{}, Warnings: []kube.Finding{}}
		v.check(args)
		if output == "text" {
			v.write(cmd.OutOrStdout())
		} else if err := (&getOptions{output: output}).encode(cmd.OutOrStdout(), v); err != nil {
			return err
		}
		if n := len(v.Errors); n > 0 {
			return &exitError{exitFailed, fmt.Errorf("%s found", counted(n, "error"))}
		}
		return nil
	}
	return cmd
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (v *validation) write(w io.Writer) {
	for _, list := range []struct {
		what     string
		findings []kube.Finding
	}{{"error", v.Errors}, {"warning", v.Warnings}} {
		for _, f := range list.findings {
			where := []string{f.File}
			if f.Document > 0 {
				where = append(where, "document "+strconv.Itoa(f.Document))
			}
			for _, s := range []string{f.Object, f.Field} {
				if s != "" {
					where = append(where, s)
				}
			}
			fmt.Fprintf(w, "%s: %s\n", list.what, printable(strings.Join(append(where, f.Message), ": ")))
		}
	}
	fmt.Fprintf(w, "%s, %s with %s: %s, %s\n", counted(v.Configurations, "configuration"), counted(v.Clusters, "cluster"), counted(v.Objects, "object"),
		counted(len(v.Errors), "error"), counted(len(v.Warnings), "warning"))
}

func (v *validation) fail(file, field, format string, args ...any) {
	v.Errors = append(v.Errors, kube.Finding{File: file, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (v *validation) warn(f kube.Finding, format string, args ...any) {
	f.Message = fmt.Sprintf(format, args...)
	v.Warnings = append(v.Warnings, f)
}

// check looks at all that is named.
func (v *validation) check(paths []string) {
	var loose []string // files of manifests
	fleet := map[string][]string{}
	for _, path := range paths {
		stat, err := os.Stat(path)
		switch {
		case err != nil:
			v.fail(path, "", "%v", err)
		case stat.IsDir():
			v.directory(filepath.Clean(path), fleet)
		case isManifestFile(path):
			loose = append(loose, path)
		default:
			v.configuration(path)
		}
	}
	if len(loose) > 0 {
		fleet["files"] = append(fleet["files"], loose...)
	}
	v.fleet(fleet)
}

// clusterDirectory is what a directory must be called to be a cluster.
var clusterDirectory = regexp.MustCompile(`^[a-zA-Z0-9][-._a-zA-Z0-9]{0,252}$`)

// directory takes a directory for a cluster or for a fleet.
func (v *validation) directory(dir string, fleet map[string][]string) {
	files, err := kube.ManifestFiles(dir)
	entries, err2 := os.ReadDir(dir)
	if err := errors.Join(err, err2); err != nil {
		v.fail(dir, "", "%v", err)
		return
	}
	var inner []string
	for _, e := range entries {
		if stat, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && stat.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			inner = append(inner, e.Name())
		}
	}
	switch {
	case len(files) > 0 || len(inner) == 0:
		if len(files) == 0 {
			v.warn(kube.Finding{File: dir}, "there are no manifests in it")
		}
		for _, name := range inner {
			v.warn(kube.Finding{File: filepath.Join(dir, name)}, "it is not read, since there are manifests beside it")
		}
		id := filepath.Base(dir)
		fleet[id] = append(fleet[id], files...)
		return
	}
	for _, name := range inner {
		path := filepath.Join(dir, name)
		if !clusterDirectory.MatchString(name) {
			v.warn(kube.Finding{File: path}, "it is ignored: its name cannot be a cluster ID")
			continue
		}
		files, err := kube.ManifestFiles(path)
		if err != nil {
			v.fail(path, "", "%v", err)
			continue
		}
		if len(files) == 0 {
			v.warn(kube.Finding{File: path}, "there are no manifests in it")
		}
		fleet[name] = append(fleet[name], files...)
	}
}

// fleet reads the manifests of clusters and joins them as a server does.
func (v *validation) fleet(fleet map[string][]string) {
	var batches []model.Batch
	where := map[model.ShardKey]map[model.ServiceKey]kube.Finding{}
	ids := make([]string, 0, len(fleet))
	for id := range fleet {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		source := model.ShardKey{Provider: model.Kubernetes, Cluster: model.ClusterID(id)}
		c := kube.Check(source, defaultConfig().DomainSuffix, fleet[id])
		v.Clusters++
		v.Objects += c.Objects
		for _, f := range c.Findings {
			if f.Warning {
				v.Warnings = append(v.Warnings, f)
			} else {
				v.Errors = append(v.Errors, f)
			}
		}
		where[source] = c.Where
		batches = append(batches, c.Batches...)
	}
	var core *aggregate.Aggregator
	core = aggregate.New("", func(source model.ShardKey) aggregate.Registry {
		return kube.NewRegistry(source.Cluster, kube.Rules{}, core.WorkloadEntries)
	})
	for _, d := range core.Round(time.Time{}, batches).Services {
		if d.Definition == nil {
			continue
		}
		for _, c := range d.Definition.Conflicts {
			f := where[c.Loser][d.Key]
			f.Field = c.Field
			v.warn(f, "%s defines it in another way, and wins: %s", c.Winner.Cluster, c.Detail)
		}
	}
}

// isManifestFile reports whether a file has objects of Kubernetes, by its first
// document that has anything.
func isManifestFile(path string) bool {
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	for {
		var head map[string]yaml.Node
		err := d.Decode(&head)
		if err != nil {
			// What cannot be read is told by whoever reads it; manifests say what
			// they are in a line of its own.
			return !errors.Is(err, io.EOF) && manifestLine.Match(b)
		}
		_, version := head["apiVersion"]
		_, kind := head["kind"]
		if len(head) > 0 {
			return version || kind
		}
	}
}

var manifestLine = regexp.MustCompile(`(?m)^(apiVersion|kind):`)

// configuration checks one configuration file.
func (v *validation) configuration(path string) {
	v.Configurations++
	c := defaultConfig()
	if err := readConfig(path, &c); err != nil {
		var typed *yaml.TypeError
		if !errors.As(err, &typed) {
			v.fail(path, "", "%s", strings.TrimPrefix(err.Error(), "reading the configuration "+path+": "))
			return
		}
		for _, e := range typed.Errors {
			field := ""
			if m := quotedSetting.FindStringSubmatch(e); m != nil {
				field = m[1]
			}
			v.fail(path, field, "%s", settingError(e))
		}
		return
	}
	if err := c.validate(); err != nil {
		list := []error{err}
		var several *multierror.Error
		if errors.As(err, &several) {
			list = several.Errors
		}
		slices.SortFunc(list, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		for _, e := range list {
			field, text, ok := strings.Cut(e.Error(), ": ")
			if !ok {
				field, text = "", e.Error()
			}
			v.fail(path, field, "%s", text)
		}
	}
	for _, s := range []struct{ field, file string }{{"kubeconfig", c.Kubeconfig}, {"kubeconfigDir", c.KubeconfigDir}, {"fleet", c.Fleet}} {
		if s.file == "" {
			continue
		}
		if _, err := os.Stat(s.file); err != nil {
			v.warn(kube.Finding{File: path, Field: s.field}, "it is not there on this machine: %v", err)
		}
	}
}

// settingErrors are what is wrong with a file, for whoever wrote it.
type settingErrors struct{ *yaml.TypeError }

func (e *settingErrors) Unwrap() error { return e.TypeError }

func (e *settingErrors) Error() string {
	list := make([]string, len(e.Errors))
	for i, x := range e.Errors {
		if m := quotedSetting.FindStringSubmatch(x); m != nil {
			x = strings.Replace(settingError(x), "there is no such setting", "there is no setting "+strconv.Quote(m[1]), 1)
		}
		list[i] = x
	}
	return strings.Join(list, "\n  ")
}

var quotedSetting = regexp.MustCompile(`field (\S+) not found in type`)

// settingError takes what only a programmer understands out of an error.
func settingError(e string) string {
	if m := regexp.MustCompile(`^(line [0-9]+): field (\S+) not found in type \S+`).FindStringSubmatch(e); m != nil {
		return m[1] + ": there is no such setting; \"tributary config reference\" lists them"
	}
	return e
}
