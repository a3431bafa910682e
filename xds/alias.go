package xds

import (
	"slices"

	"tributary/shards"
)

// aliases returns the services that are other names of s to this client, as
// ExternalNames are, sorted by key. An alias has neither endpoints nor clusters:
// its names are domains of what it stands for in the end, on every port of that,
// whatever ports it names itself (I:1C). Those that lead in a circle, or to
// nothing, stand for nothing. Of a chain the client must be shown the name that it
// uses and what it stands for; the links between are nobody's to see.
func (v *view) aliases(s *shards.Service) []*shards.Service {
	return slices.DeleteFunc(v.snapshot.Aliases(s.Key.Host), func(a *shards.Service) bool {
		return !a.Definition.Visibility().To(v.node.Namespace)
	})
}
