package kube

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tributary/model"
)

// Labels of pods that say where they are.
const (
	localityLabel = "istio-locality"
	networkLabel  = "topology.istio.io/network"
)

// pod converts a Pod; nil if its name, account or labels cannot be used. A pod without an address is a row
// as well: slices may refer to it before it has one.
func (c converter) pod(o *corev1.Pod) (w *model.WorkloadInstance, dropped int) {
	labels, ok := packLabels(o.Labels)
	account := o.Spec.ServiceAccountName
	if account == "" {
		account = "default" // what Kubernetes takes it for
	}
	if !ok || !usableName(o.Name) || !usableName(o.Namespace) || !usableName(account) {
		return nil, 1
	}
	w = &model.WorkloadInstance{
		Name:     o.Name,
		UID:      model.ParseUID(string(o.UID)),
		Labels:   labels,
		Identity: &model.Identity{Cluster: c.source.Cluster, Kind: model.Pod, Namespace: o.Namespace, ServiceAccount: account},
		Placement: &model.Placement{
			Locality: localityOf(o.Labels[localityLabel]),
			Network:  o.Labels[networkLabel],
		},
		State: stateOf(o),
	}
	if !usableText(o.Labels[localityLabel]) || !usableText(o.Labels[networkLabel]) {
		w.Placement.Locality, w.Placement.Network = "", ""
		dropped++
	}
	if usableName(o.Spec.NodeName) {
		w.Placement.Node = o.Spec.NodeName
	} else if o.Spec.NodeName != "" {
		dropped++
	}
	var details model.WorkloadDetails
	addrs := make([]model.Addr, 0, 2)
	take := func(ip string) {
		a, ok := usableAddr(ip)
		switch {
		case ip == "" || slices.Contains(addrs, a):
		case !ok || len(addrs) == maxAddrs:
			dropped++
		default:
			addrs = append(addrs, a)
		}
	}
	take(o.Status.PodIP)
	for _, ip := range o.Status.PodIPs {
		if ip.IP != o.Status.PodIP {
			take(ip.IP)
		}
	}
	if len(addrs) > 0 {
		w.Addr = addrs[0]
	}
	if len(addrs) > 1 {
		details.More = addrs[1:]
	}
	var n int
	details.Ports, n = namedPorts(o)
	dropped += n
	if details.More != nil || details.Ports != nil {
		w.Details = &details
	}
	return w, dropped
}

func stateOf(o *corev1.Pod) (s model.WorkloadState) {
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			s |= model.Ready
		}
	}
	if o.DeletionTimestamp != nil {
		s |= model.Terminating
	}
	if o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
		s |= model.Finished
	}
	if o.Spec.HostNetwork {
		s |= model.HostNetwork
	}
	return s
}

// localityOf reads Istio's locality label. A label value cannot hold a '/', so
// '.' stands for it, unless the value came by a way that allows '/'.
func localityOf(label string) model.Locality {
	if !strings.Contains(label, "/") {
		label = strings.ReplaceAll(label, ".", "/")
	}
	return model.NewLocality(model.Locality(label).Split())
}

// namedPorts lists the ports that the containers name. Restartable init
// containers count: they are sidecars, which Kubernetes looks at as well.
func namedPorts(o *corev1.Pod) (ports []model.NamedPort, dropped int) {
	read := func(c *corev1.Container) {
		for i := range c.Ports {
			p := &c.Ports[i]
			if p.Name == "" {
				continue
			}
			if number, ok := portNumber(p.ContainerPort); ok && usableText(p.Name) && len(ports) < maxPorts {
				ports = append(ports, model.NamedPort{Name: p.Name, Number: number})
			} else {
				dropped++
			}
		}
	}
	for i := range o.Spec.Containers {
		read(&o.Spec.Containers[i])
	}
	for i := range o.Spec.InitContainers {
		c := &o.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			read(c)
		}
	}
	// Of two ports of one name the first counts, as for Kubernetes.
	slices.SortStableFunc(ports, func(a, b model.NamedPort) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(ports, func(a, b model.NamedPort) bool { return a.Name == b.Name }), dropped
}
