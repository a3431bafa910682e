package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"tributary/model"
)

// manifest is what one file says.
type manifest struct {
	rows    []manifestRow
	unknown []string // kinds that nobody here knows
	dropped int
	check   *checker // nil but for a check
}

// manifestRow is one object of a file that makes a row.
type manifestRow struct {
	kind      model.Kind
	name      model.NamespacedName
	document  int // counted from 1
	service   *model.Service
	slice     *model.EndpointSlice
	workload  *model.WorkloadInstance
	node      *model.Node
	namespace *model.Namespace
}

// maxListDepth bounds lists within lists.
const maxListDepth = 4

// isManifest reports whether a file of this name is read.
func isManifest(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

// parseManifest reads all documents of a file. Any document that cannot be read
// makes the whole file unreadable: half of a file is never what was meant.
func parseManifest(name string, data []byte, c converter) (*manifest, error) {
	next := yamlDocuments(data)
	if strings.EqualFold(filepath.Ext(name), ".json") {
		next = jsonDocuments(data)
	}
	m := &manifest{}
	for n := 1; ; n++ {
		doc, err := next()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err == nil {
			err = m.read(doc, n, 0, c)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// yamlDocuments yields the documents of a YAML file as JSON.
func yamlDocuments(data []byte) func() ([]byte, error) {
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	return func() ([]byte, error) {
		doc, err := r.Read()
		if err != nil {
			return nil, err
		}
		return yaml.YAMLToJSON(doc)
	}
}

// jsonDocuments yields the values of a JSON file, of which there may be several.
func jsonDocuments(data []byte) func() ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	return func() ([]byte, error) {
		var doc json.RawMessage
		err := d.Decode(&doc)
		return doc, err
	}
}

// read reads one object, or the objects of a list.
func (m *manifest) read(doc []byte, document, depth int, c converter) error {
	if string(bytes.TrimSpace(doc)) == "null" {
		return nil // nothing but comments
	}
	var head struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if head.Kind == "" || head.APIVersion == "" {
		return errors.New("not a Kubernetes object: apiVersion or kind is missing")
	}
	kind := head.GroupVersionKind()
	switch kind {
	case corev1.SchemeGroupVersion.WithKind("List"):
		if depth == maxListDepth {
			return errors.New("lists are nested too deep")
		}
		for i, item := range head.Items {
			if err := m.read(item, document, depth+1, c); err != nil {
				return fmt.Errorf("item %d of the list: %w", i, err)
			}
		}
		return nil
	case serviceKind, sliceKind, podKind, nodeKind, namespaceKind,
		listOf(serviceKind), listOf(sliceKind), listOf(podKind), listOf(nodeKind), listOf(namespaceKind):
	default:
		// Other kinds of Kubernetes belong in such a directory as well, and need
		// not even be right. The older forms of slices do not: they would be missed.
		if !scheme.Scheme.Recognizes(kind) || strings.HasPrefix(kind.Kind, "Endpoint") {
			m.unknown = append(m.unknown, kind.GroupVersion().String()+" "+kind.Kind)
		}
		return nil
	}
	if m.check != nil {
		m.check.decode(doc, document)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
	if err != nil {
		return fmt.Errorf("decoding a %s: %w", kind.Kind, err)
	}
	if !meta.IsListType(object) {
		return m.add(object, document, c)
	}
	i := -1
	return meta.EachListItem(object, func(o runtime.Object) error {
		i++
		if err := m.add(o, document, c); err != nil {
			return fmt.Errorf("item %d of the list: %w", i, err)
		}
		return nil
	})
}

var (
	serviceKind   = corev1.SchemeGroupVersion.WithKind("Service")
	sliceKind     = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	podKind       = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind      = corev1.SchemeGroupVersion.WithKind("Node")
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")
)

func listOf(k schema.GroupVersionKind) schema.GroupVersionKind {
	return k.GroupVersion().WithKind(k.Kind + "List")
}

// add converts one object. As with kubectl, one without a namespace is in
// "default".
func (m *manifest) add(o runtime.Object, document int, c converter) error {
	a, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("reading its metadata: %w", err)
	}
	if a.GetName() == "" {
		return errors.New("the object has no metadata.name")
	}
	switch o.(type) {
	case *corev1.Node, *corev1.Namespace:
		a.SetNamespace("") // they are in none
	default:
		if a.GetNamespace() == "" {
			a.SetNamespace(metav1.NamespaceDefault)
		}
	}
	var b model.Batch
	ok, dropped := c.add(&b, o)
	m.dropped += dropped
	if m.check != nil {
		m.check.converted(o, document, ok, dropped)
	}
	if !ok {
		return nil
	}
	row := manifestRow{name: model.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}, document: document}
	switch {
	case b.Services != nil:
		row.kind, row.service = model.KindService, b.Services[0]
	case b.Slices != nil:
		row.kind, row.slice = model.KindEndpointSlice, b.Slices[0]
	case b.Workloads != nil:
		row.kind, row.workload = model.KindPod, b.Workloads[0]
	case b.Nodes != nil:
		row.kind, row.node = model.KindNode, b.Nodes[0]
	case b.Namespaces != nil:
		row.kind, row.namespace = model.KindNamespace, b.Namespaces[0]
	}
	m.rows = append(m.rows, row)
	return nil
}
