package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"tributary/model"
)

// Finding is something that is wrong with a manifest, or that is surely not
// meant.
type Finding struct {
	File     string `json:"file"`
	Document int    `json:"document,omitempty"` // counted from 1; 0: the file as a whole
	Object   string `json:"object,omitempty"`   // kind and name
	Field    string `json:"field,omitempty"`
	Message  string `json:"message"`
	Warning  bool   `json:"-"` // what is written is used as it is
}

// Checked is what the manifests of a cluster say, and what is wrong with them.
type Checked struct {
	Batches  []model.Batch // a snapshot of each kind
	Findings []Finding     // by file, then document
	Objects  int
	// Where tells where the definition of a service is.
	Where map[model.ServiceKey]Finding
}

// Check reads manifests of one cluster, as Manifests does, and reports all that
// is wrong with them instead of the first. The converters are the same: what is
// told of a part of an object is what they make of that part alone.
func Check(source model.ShardKey, suffix string, files []string) Checked {
	k := &checker{convert: newConverter(source, suffix), where: map[objectKey]place{}}
	m := NewManifests(ManifestsConfig{Source: source, DomainSuffix: suffix, Logger: slog.New(slog.DiscardHandler)})
	out := Checked{Where: map[model.ServiceKey]Finding{}}
	for _, path := range files {
		// The base name orders files, as in a directory.
		m.files[path] = &manifestFile{good: k.file(path)}
	}
	k.twice(m)
	for i, rows := range m.merge() {
		b := batchOf(source, model.Kind(i), rows)
		out.Objects += b.Rows()
		for _, s := range b.Services {
			at := k.where[objectKey{model.KindService, model.NamespacedName{Namespace: s.Key.Namespace, Name: s.Name}}]
			out.Where[s.Key] = at.finding("")
		}
		out.Batches = append(out.Batches, b)
	}
	k.join(&out)
	slices.SortStableFunc(k.findings, func(a, b Finding) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Document - b.Document
	})
	out.Findings = k.findings
	return out
}

// ManifestFiles lists the files of a directory that are read as manifests.
func ManifestFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if stat, err := os.Stat(path); isManifest(e.Name()) && (err != nil || !stat.IsDir()) {
			files = append(files, path)
		}
	}
	return files, nil
}

// checker collects findings while manifests are read.
type checker struct {
	convert  converter
	path     string // of the file that is read
	findings []Finding
	where    map[objectKey]place
	slices   []checkedSlice
}

type objectKey struct {
	kind model.Kind
	name model.NamespacedName
}

// place is where an object is.
type place struct {
	file     string
	document int
	object   string
}

func (p place) finding(field string) Finding {
	return Finding{File: p.file, Document: p.document, Object: p.object, Field: field}
}

type checkedSlice struct {
	place
	*discoveryv1.EndpointSlice
}

func (k *checker) add(f Finding, format string, args ...any) {
	f.Message = fmt.Sprintf(format, args...)
	k.findings = append(k.findings, f)
}

func (k *checker) warn(f Finding, format string, args ...any) {
	f.Warning = true
	k.add(f, format, args...)
}

// file reads one file. A document that cannot be read hides no other.
func (k *checker) file(path string) *manifest {
	k.path = path
	m := &manifest{check: k}
	stat, err := os.Stat(path)
	var data []byte
	if err == nil {
		data, err = readRegular(path, stat)
	}
	if err != nil {
		k.add(Finding{File: path}, "%v", err)
		return m
	}
	next := k.yamlDocuments(data)
	if strings.EqualFold(filepath.Ext(path), ".json") {
		next = jsonDocuments(data)
	}
	for n := 1; ; n++ {
		doc, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		broken := err != nil
		if !broken {
			err = m.read(doc, n, 0, k.convert)
		}
		if err != nil {
			k.add(Finding{File: path, Document: n, Field: fieldOf(err)}, "%v", err)
		}
		if broken && strings.EqualFold(filepath.Ext(path), ".json") {
			break // where the next value begins cannot be told
		}
		for _, kind := range m.unknown {
			k.warn(Finding{File: path, Document: n, Field: "kind"}, "%s is not known and not read", kind)
		}
		m.unknown = nil
	}
	return m
}

// yamlDocuments is yamlDocuments that also tells of keys that are given twice.
func (k *checker) yamlDocuments(data []byte) func() ([]byte, error) {
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	n := 0
	return func() ([]byte, error) {
		doc, err := r.Read()
		if err != nil {
			return nil, err
		}
		n++
		out, err := yaml.YAMLToJSON(doc)
		if err == nil {
			if _, strict := yaml.YAMLToJSONStrict(doc); strict != nil {
				k.warn(Finding{File: k.path, Document: n}, "%v", strict)
			}
		}
		return out, err
	}
}

var structField = regexp.MustCompile(`Go struct field [A-Za-z]+\.([A-Za-z0-9.]+) of type`)

// fieldOf returns the field that a decoder complains of; "" if it names none.
func fieldOf(err error) string {
	if m := structField.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

var strictDecoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

var quotedField = regexp.MustCompile(`"([^"]+)"`)

// decode tells of fields that are not known: an API server would drop them.
func (k *checker) decode(doc []byte, document int) {
	object, _, err := strictDecoder.Decode(doc, nil, nil)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return // what cannot be decoded at all is told by who wants to use it
	}
	at := place{file: k.path, document: document}
	if object != nil {
		at.object = describe(object)
	}
	for _, e := range strict.Errors() {
		f := at.finding("")
		if m := quotedField.FindStringSubmatch(e.Error()); m != nil {
			f.Field = m[1]
		}
		k.warn(f, "%v", e)
	}
}

func describe(o runtime.Object) string {
	a, err := meta.Accessor(o)
	if err != nil {
		return o.GetObjectKind().GroupVersionKind().Kind
	}
	name := a.GetName()
	if ns := a.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return kindName(o) + " " + name
}

func kindName(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Service:
		return "Service"
	case *discoveryv1.EndpointSlice:
		return "EndpointSlice"
	case *corev1.Pod:
		return "Pod"
	case *corev1.Node:
		return "Node"
	case *corev1.Namespace:
		return "Namespace"
	}
	return o.GetObjectKind().GroupVersionKind().Kind
}

// converted is told of every object, and what the converter made of it.
func (k *checker) converted(o runtime.Object, document int, ok bool, dropped int) {
	at := place{k.path, document, describe(o)}
	if slice, is := o.(*discoveryv1.EndpointSlice); is && ok {
		k.slices = append(k.slices, checkedSlice{at, slice})
	}
	if dropped > 0 || !ok {
		k.explain(o, at, ok, dropped)
	}
}

// twice tells of objects that another one of the same name replaces, and
// remembers where the others are.
func (k *checker) twice(m *Manifests) {
	files := make([]string, 0, len(m.files))
	for path := range m.files {
		files = append(files, path)
	}
	slices.Sort(files)
	for _, path := range files {
		for _, r := range m.files[path].good.rows {
			key := objectKey{r.kind, r.name}
			at := place{path, r.document, r.kind.String() + " " + r.name.String()}
			if r.name.Namespace == "" {
				at.object = r.kind.String() + " " + r.name.Name
			}
			if was, twice := k.where[key]; twice {
				k.warn(was.finding(""), "it is given again in %s, document %d, which counts", path, r.document)
			}
			k.where[key] = at
		}
	}
}

// join tells of what the slices refer to and is not there.
func (k *checker) join(out *Checked) {
	services := map[model.NamespacedName]*model.Service{}
	pods := map[model.NamespacedName]*model.WorkloadInstance{}
	rows := map[model.NamespacedName]*model.EndpointSlice{}
	for _, b := range out.Batches {
		for _, s := range b.Services {
			services[model.NamespacedName{Namespace: s.Key.Namespace, Name: s.Name}] = s
		}
		for _, w := range b.Workloads {
			pods[model.NamespacedName{Namespace: w.Identity.Namespace, Name: w.Name}] = w
		}
		for _, s := range b.Slices {
			rows[s.Object] = s
		}
	}
	for _, s := range k.slices {
		name := model.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		if at := k.where[objectKey{model.KindEndpointSlice, name}]; at.file != s.file || at.document != s.document {
			continue // another one counts
		}
		row := rows[name]
		service := services[model.NamespacedName{Namespace: s.Namespace, Name: row.Service}]
		if service == nil {
			k.warn(s.finding("metadata.labels["+discoveryv1.LabelServiceName+"]"), "there is no Service %s/%s among the manifests, and without it the slice is not used", s.Namespace, row.Service)
		} else {
			k.ports(s, row, service)
		}
		for i := range s.Endpoints {
			k.target(s, i, pods)
		}
	}
}

// ports tells of ports of a slice that no port of its Service has the name of.
func (k *checker) ports(s checkedSlice, row *model.EndpointSlice, service *model.Service) {
	for i := range s.Ports {
		name := ""
		if s.Ports[i].Name != nil {
			name = *s.Ports[i].Name
		}
		used := slices.ContainsFunc(row.Ports, func(p model.SlicePort) bool { return p.Name == name })
		if used && !slices.ContainsFunc(service.Ports, func(p model.Port) bool { return p.Name == name }) {
			var names []string
			for _, p := range service.Ports {
				names = append(names, fmt.Sprintf("%q", p.Name))
			}
			k.warn(s.finding(fmt.Sprintf("ports[%d].name", i)), "Service %s/%s has no port named %q, and ports match by name; it has %s",
				service.Key.Namespace, service.Name, name, strings.Join(names, ", "))
		}
	}
}

// target tells of a pod that an endpoint refers to and that holds it back.
func (k *checker) target(s checkedSlice, i int, pods map[model.NamespacedName]*model.WorkloadInstance) {
	e, ok := sliceEndpoint(&s.Endpoints[i], s.Namespace)
	if !ok || e.Pod == "" {
		return
	}
	f := s.finding(fmt.Sprintf("endpoints[%d].targetRef", i))
	switch pod := pods[model.NamespacedName{Namespace: s.Namespace, Name: e.Pod}]; {
	case pod == nil:
		k.warn(f, "there is no Pod %s/%s among the manifests: %s is held back until there is", s.Namespace, e.Pod, e.Addr)
	case e.UID != model.UID{} && e.UID != pod.UID:
		k.warn(f, "Pod %s/%s has another uid: %s is held back", s.Namespace, e.Pod, e.Addr)
	case pod.State&model.Finished != 0:
		k.warn(f, "Pod %s/%s has ended: %s is held back", s.Namespace, e.Pod, e.Addr)
	}
}
