package model

// Node is what a source reports of a node of its cluster.
type Node struct {
	Name     string
	Locality Locality
}

// Namespace is what a source reports of a namespace of its cluster.
type Namespace struct {
	Name   string
	Labels Labels
}
