package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary/model"
)

// part is a part of an object that a converter may not be able to use: object
// has that part and nothing else that could be in its way. Which parts are wrong
// is found by converting each alone, so there are no rules here that could differ
// from those of the converters.
type part struct {
	field string
	value any
	rule  string // that it breaks, if it breaks one
	alone runtime.Object
}

// explain tells which parts of an object could not be used.
func (k *checker) explain(o runtime.Object, at place, ok bool, dropped int) {
	found := 0
	for _, p := range partsOf(o) {
		var b model.Batch
		if usable, lost := k.convert.add(&b, p.alone); usable && lost == 0 {
			continue
		}
		found++
		k.add(at.finding(p.field), "%s cannot be used: %s", shortJSON(p.value), p.rule)
	}
	slice, isSlice := o.(*discoveryv1.EndpointSlice)
	switch {
	case found > 0:
	case !ok && dropped == 0 && isSlice && slice.Labels[mcsServiceLabel] != "":
		k.warn(at.finding("metadata.labels["+mcsServiceLabel+"]"), "it was made from slices of other clusters, which are read there; it is not used")
	case !ok && dropped == 0 && isSlice:
		k.warn(at.finding("metadata.labels["+discoveryv1.LabelServiceName+"]"), "the label is missing, so it belongs to no Service and is not used")
	case !ok:
		k.add(at.finding(""), "it cannot be used")
	default:
		k.add(at.finding(""), "%d of its parts cannot be used", dropped)
	}
}

func shortJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "it"
	}
	const most = 120
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}

// Rules, as a person is told them.
const (
	ruleName    = "it may have lower-case letters, digits, '-' and '.', and at most 253 of them"
	ruleText    = "labels are UTF-8, and together at most 256 KiB"
	ruleValue   = "it is UTF-8 of at most 253 bytes"
	ruleAddress = "it is an IP address that traffic can be sent to"
	rulePort    = "a port has a number from 1 to 65535, and a name of UTF-8 of at most 253 bytes"
)

func partsOf(o runtime.Object) []part {
	switch o := o.(type) {
	case *corev1.Service:
		return partsOfService(o)
	case *discoveryv1.EndpointSlice:
		return partsOfSlice(o)
	case *corev1.Pod:
		return partsOfPod(o)
	case *corev1.Node:
		return partsOfNode(o)
	case *corev1.Namespace:
		list := []part{{"metadata.name", o.Name, ruleName, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}}}
		return append(list, labelParts(o.Labels, "", func(m metav1.ObjectMeta) runtime.Object { return &corev1.Namespace{ObjectMeta: m} })...)
	}
	return nil
}

// named is metadata that no converter objects to.
func named() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "a", Namespace: "a"} }

// nameParts are the name and the namespace of an object.
func nameParts(m *metav1.ObjectMeta, make func(metav1.ObjectMeta) runtime.Object) []part {
	name, namespace := named(), named()
	name.Name, namespace.Namespace = m.Name, m.Namespace
	return []part{
		{"metadata.name", m.Name, ruleName, make(name)},
		{"metadata.namespace", m.Namespace, ruleName, make(namespace)},
	}
}

// labelParts are labels, all together and one by one.
func labelParts(labels map[string]string, namespace string, make func(metav1.ObjectMeta) runtime.Object) (list []part) {
	meta := func(labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "a", Namespace: namespace, Labels: labels}
	}
	whole := 0
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := labels[k]
		whole += len(k) + len(v)
		list = append(list, part{"metadata.labels[" + k + "]", v, ruleValue, make(meta(map[string]string{k: v}))})
	}
	if whole > maxText {
		list = append(list, part{"metadata.labels", fmt.Sprintf("%d bytes", whole), ruleText, make(meta(labels))})
	}
	return list
}

func partsOfService(o *corev1.Service) []part {
	list := nameParts(&o.ObjectMeta, func(m metav1.ObjectMeta) runtime.Object { return &corev1.Service{ObjectMeta: m} })
	add := func(field string, value any, rule string, change func(*corev1.Service)) {
		alone := &corev1.Service{ObjectMeta: named()}
		change(alone)
		list = append(list, part{field, value, rule, alone})
	}
	add("spec.selector", o.Spec.Selector, ruleText, func(s *corev1.Service) { s.Spec.Selector = o.Spec.Selector })
	add("metadata.annotations["+exportToAnnotation+"]", o.Annotations[exportToAnnotation], "it is UTF-8 of at most 256 KiB", func(s *corev1.Service) {
		s.Annotations = map[string]string{exportToAnnotation: o.Annotations[exportToAnnotation]}
	})
	for _, key := range []string{accountsAnnotation, identitiesAnnotation} {
		add("metadata.annotations["+key+"]", o.Annotations[key], "it has at most 256 names of accounts, or of identities as URIs, between commas", func(s *corev1.Service) {
			s.Annotations = map[string]string{key: o.Annotations[key]}
		})
	}
	if o.Spec.Type == corev1.ServiceTypeExternalName {
		add("spec.externalName", o.Spec.ExternalName, ruleName, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = o.Spec.Type, o.Spec.ExternalName
		})
	}
	if len(o.Spec.ClusterIPs) == 0 && o.Spec.ClusterIP != "" {
		add("spec.clusterIP", o.Spec.ClusterIP, ruleAddress, func(s *corev1.Service) { s.Spec.ClusterIP = o.Spec.ClusterIP })
	}
	for i, ip := range o.Spec.ClusterIPs {
		add(fmt.Sprintf("spec.clusterIPs[%d]", i), ip, ruleAddress, func(s *corev1.Service) { s.Spec.ClusterIPs = []string{ip} })
	}
	for i, ip := range o.Spec.ExternalIPs {
		add(fmt.Sprintf("spec.externalIPs[%d]", i), ip, ruleAddress, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{ip} })
	}
	for i, p := range o.Spec.Ports {
		add(fmt.Sprintf("spec.ports[%d]", i), p, rulePort, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{p} })
	}
	return list
}

func partsOfSlice(o *discoveryv1.EndpointSlice) []part {
	slice := func(m metav1.ObjectMeta) *discoveryv1.EndpointSlice {
		m.Labels = map[string]string{discoveryv1.LabelServiceName: "a"}
		return &discoveryv1.EndpointSlice{ObjectMeta: m}
	}
	list := nameParts(&o.ObjectMeta, func(m metav1.ObjectMeta) runtime.Object { return slice(m) })
	add := func(field string, value any, rule string, change func(*discoveryv1.EndpointSlice)) {
		alone := slice(metav1.ObjectMeta{Name: "a", Namespace: o.Namespace})
		change(alone)
		list = append(list, part{field, value, rule, alone})
	}
	if !usableName(o.Namespace) {
		return list // nothing could be told of the rest
	}
	add("metadata.labels["+discoveryv1.LabelServiceName+"]", o.Labels[discoveryv1.LabelServiceName], ruleName, func(s *discoveryv1.EndpointSlice) {
		if name := o.Labels[discoveryv1.LabelServiceName]; name != "" {
			s.Labels[discoveryv1.LabelServiceName] = name
		}
	})
	if o.AddressType == discoveryv1.AddressTypeFQDN {
		add("addressType", o.AddressType, "it is IPv4 or IPv6", func(s *discoveryv1.EndpointSlice) { s.AddressType = o.AddressType })
		return list
	}
	for i, p := range o.Ports {
		add(fmt.Sprintf("ports[%d]", i), p, rulePort, func(s *discoveryv1.EndpointSlice) { s.Ports = []discoveryv1.EndpointPort{p} })
	}
	for i, e := range o.Endpoints {
		add(fmt.Sprintf("endpoints[%d]", i), e,
			fmt.Sprintf("its first address is one of type %s that traffic can be sent to, and a pod that it refers to is one of namespace %s", o.AddressType, o.Namespace),
			func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints = o.AddressType, []discoveryv1.Endpoint{e}
			})
	}
	return list
}

func partsOfPod(o *corev1.Pod) []part {
	pod := func(m metav1.ObjectMeta) runtime.Object { return &corev1.Pod{ObjectMeta: m} }
	list := append(nameParts(&o.ObjectMeta, pod), labelParts(o.Labels, "a", pod)...)
	add := func(field string, value any, rule string, change func(*corev1.Pod)) {
		alone := &corev1.Pod{ObjectMeta: named()}
		change(alone)
		list = append(list, part{field, value, rule, alone})
	}
	add("spec.serviceAccountName", o.Spec.ServiceAccountName, ruleName, func(p *corev1.Pod) { p.Spec.ServiceAccountName = o.Spec.ServiceAccountName })
	add("spec.nodeName", o.Spec.NodeName, ruleName, func(p *corev1.Pod) { p.Spec.NodeName = o.Spec.NodeName })
	add("status.podIP", o.Status.PodIP, ruleAddress, func(p *corev1.Pod) { p.Status.PodIP = o.Status.PodIP })
	for i, ip := range o.Status.PodIPs {
		if ip.IP != o.Status.PodIP {
			add(fmt.Sprintf("status.podIPs[%d]", i), ip.IP, ruleAddress, func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{ip} })
		}
	}
	for i, c := range o.Spec.Containers {
		for j, port := range c.Ports {
			add(fmt.Sprintf("spec.containers[%d].ports[%d]", i, j), port, rulePort, func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{port}}}
			})
		}
	}
	for i, c := range o.Spec.InitContainers {
		for j, port := range c.Ports {
			add(fmt.Sprintf("spec.initContainers[%d].ports[%d]", i, j), port, rulePort, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{RestartPolicy: c.RestartPolicy, Ports: []corev1.ContainerPort{port}}}
			})
		}
	}
	return list
}

func partsOfNode(o *corev1.Node) []part {
	list := []part{{"metadata.name", o.Name, ruleName, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}}}
	return append(list, labelParts(o.Labels, "", func(m metav1.ObjectMeta) runtime.Object { return &corev1.Node{ObjectMeta: m} })...)
}
