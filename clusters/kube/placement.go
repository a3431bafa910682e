package kube

import (
	"slices"

	"tributary/model"
)

// Where a pod is follows from the pod, its node and the namespace of the mesh
// (model.Placement.Or): the rows of pods hold the result, and what changes in a
// node or in that namespace changes them.

// nodeRow exists while there is a node or a pod on it.
type nodeRow struct {
	locality   model.Locality
	known      bool
	generation uint32
	pods       []*podRow // that run on it; each knows its place (podRow.at)
}

// Of podRow.at: what a pod does not say itself, and its place in nodeRow.pods.
const (
	ownLocality = 1 << 31
	ownNetwork  = 1 << 30
	placeMask   = ownNetwork - 1
)

// setNode puts a node, nil for none, in place of the one that was there.
func (t *tables) setNode(name string, n *model.Node) {
	r := t.nodes[name]
	if r == nil {
		if n == nil {
			return
		}
		r = &nodeRow{}
		t.nodes[name] = r
	}
	r.generation = t.generation[model.KindNode]
	was := r.locality
	r.known, r.locality = n != nil, ""
	if n != nil {
		r.locality = n.Locality
	}
	if r.locality != was {
		for _, p := range r.pods {
			t.place(p)
		}
	}
	t.dropNode(name, r)
}

func (t *tables) dropNode(name string, r *nodeRow) {
	if !r.known && len(r.pods) == 0 {
		delete(t.nodes, name)
	}
}

// nodeLocality returns the locality of a node; "" if it is not known.
func (t *tables) nodeLocality(name string) model.Locality {
	if r := t.nodes[name]; r != nil {
		return r.locality
	}
	return ""
}

// place derives where the pod of r is.
func (t *tables) place(r *podRow) {
	said := *r.pod.Placement
	if r.at&ownLocality == 0 {
		said.Locality = ""
	}
	if r.at&ownNetwork == 0 {
		said.Network = ""
	}
	placement := said.Or(t.nodeLocality(said.Node), t.network)
	if placement == *r.pod.Placement {
		return
	}
	w := *r.pod
	w.Placement = &placement
	t.replacePod(model.NamespacedName{Namespace: w.Identity.Namespace, Name: w.Name}, r, &w)
}

// placed returns w with what it does not say itself of where it is.
func (t *tables) placed(w model.WorkloadInstance, p *model.Placement) model.WorkloadInstance {
	*p = w.Placement.Or(t.nodeLocality(w.Placement.Node), t.network)
	w.Placement = p
	return w
}

// noteNode keeps the postings of nodes when the pod of r becomes w.
func (t *tables) noteNode(r *podRow, w *model.WorkloadInstance) {
	was, is := "", ""
	if r.pod != nil {
		was = r.pod.Placement.Node
	}
	if w != nil {
		is = w.Placement.Node
	}
	if was == is {
		return
	}
	if was != "" {
		n := t.nodes[was]
		last := len(n.pods) - 1
		at := r.at & placeMask
		moved := n.pods[last]
		n.pods[at] = moved
		moved.at = moved.at&^placeMask | at
		n.pods[last] = nil
		n.pods = n.pods[:last]
		t.dropNode(was, n)
	}
	if is != "" {
		n := t.nodes[is]
		if n == nil {
			n = &nodeRow{}
			t.nodes[is] = n
		}
		r.at = r.at&^placeMask | uint32(len(n.pods))
		if len(n.pods) == cap(n.pods) {
			n.pods = slices.Grow(n.pods, 2+len(n.pods)/4) // few pods come, and stay
		}
		n.pods = append(n.pods, r)
	}
}

// setNetwork sets the network of the pods that name none.
func (t *tables) setNetwork(network string) {
	if network == t.network {
		return
	}
	t.network = network
	for _, pods := range t.pods {
		for _, r := range pods {
			if r.pod != nil && r.at&ownNetwork == 0 {
				t.place(r)
			}
		}
	}
}
