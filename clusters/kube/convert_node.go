package kube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"tributary/model"
)

// subzoneLabel is Istio's; Kubernetes has no label for it.
const subzoneLabel = "topology.istio.io/subzone"

// convertNode converts a Node; nil if its name cannot be used.
func convertNode(o *corev1.Node) (n *model.Node, dropped int) {
	if !usableName(o.Name) {
		return nil, 1
	}
	first := func(keys ...string) string {
		for _, k := range keys {
			v := o.Labels[k]
			switch {
			case v == "":
			case !usableText(v):
				dropped++
			default:
				return v
			}
		}
		return ""
	}
	region := first(corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion)
	zone := first(corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)
	return &model.Node{Name: o.Name, Locality: model.NewLocality(region, zone, first(subzoneLabel))}, dropped
}

// convertNamespace converts a Namespace; nil if its name or labels cannot be
// used. It has the label with its name, as API servers see to, also if it comes
// from a file.
func convertNamespace(o *corev1.Namespace) (n *model.Namespace, dropped int) {
	set := o.Labels
	if set[corev1.LabelMetadataName] != o.Name {
		set = maps.Clone(set)
		if set == nil {
			set = map[string]string{}
		}
		set[corev1.LabelMetadataName] = o.Name
	}
	labels, ok := packLabels(set)
	if !ok || !usableName(o.Name) {
		return nil, 1
	}
	return &model.Namespace{Name: o.Name, Labels: labels}, 0
}
