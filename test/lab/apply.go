package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"tributary/test/tb"
)

// callTimeout bounds the calls of one helper.
const callTimeout = 30 * time.Second

// Apply creates or changes the objects of a YAML stream: of any kinds, CRDs
// and what they define too, each with its status if it has one. Namespaced
// objects must name their namespace. CRDs go first, and the rest follows when
// the API server serves them.
func (c *Cluster) Apply(t tb.T, manifests string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	if err := c.ApplyObjects(ctx, []byte(manifests)); err != nil {
		t.Fatalf("%v", err)
	}
}

// ApplyObjects is Apply for callers without a test.
func (c *Cluster) ApplyObjects(ctx context.Context, manifests []byte) error {
	objects, err := parse(manifests)
	if err != nil {
		return fmt.Errorf("applying to %s: %w", c.ID, err)
	}
	var crds, rest []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, o)
		} else {
			rest = append(rest, o)
		}
	}
	each := func(objects []*unstructured.Unstructured, what string, do func(context.Context, *unstructured.Unstructured) error) error {
		for _, o := range objects {
			if err := do(ctx, o); err != nil {
				return fmt.Errorf("%s %s %s/%s to %s: %w", what, o.GetKind(), o.GetNamespace(), o.GetName(), c.ID, err)
			}
		}
		return nil
	}
	if err := each(crds, "applying", c.apply); err != nil {
		return err
	}
	if err := each(crds, "bringing", c.served); err != nil {
		return err
	}
	return each(rest, "applying", c.apply)
}

// Delete deletes the objects of a YAML stream, of which only kind, namespace
// and name count. Those that are not there are deleted. It does not wait until
// a namespace is gone.
func (c *Cluster) Delete(t tb.T, manifests string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	objects, err := parse([]byte(manifests))
	if err != nil {
		t.Fatalf("deleting in %s: %v", c.ID, err)
	}
	for _, o := range objects {
		client, err := c.resource(o)
		if err == nil {
			// No kubelet ends a pod, so a pod ends at once.
			err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("deleting %s %s/%s in %s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), c.ID, err)
		}
	}
}

// parse splits a YAML stream into objects.
func parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading manifest %d: %w", len(objects)+1, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// apply applies one object, and its status if it has one: most kinds take it
// only in a call of its own.
func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := c.resource(o)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: "lab", Force: true}
	if _, err := client.Apply(ctx, o.GetName(), o, options); err != nil {
		return err
	}
	if _, ok := o.Object["status"]; !ok || o.GetKind() == "CustomResourceDefinition" {
		return nil
	}
	_, err = client.ApplyStatus(ctx, o.GetName(), o, options)
	if apierrors.IsNotFound(err) {
		return nil // no call of its own: the first one has done it
	}
	return err
}

// resource returns a client for the kind and namespace of an object.
func (c *Cluster) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := c.clients.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client := c.clients.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	if o.GetNamespace() == "" {
		return nil, errors.New("it names no namespace")
	}
	return client.Namespace(o.GetNamespace()), nil
}

// served waits until the API server serves all that a CRD defines, and tells
// clients so.
func (c *Cluster) served(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		err := tb.Until(ctx, func(context.Context) error {
			_, err := c.clients.kinds.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, name)
			if err != nil {
				c.clients.kinds.Reset() // ask again
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
