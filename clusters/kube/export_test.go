package kube

// Sizes counts what a registry holds, for tests of leaks.
func Sizes(r *Registry) map[string]int {
	n := map[string]int{
		"labels": r.interns.labels.Len(), "identities": r.interns.identities.Len(), "placements": r.interns.placements.Len(),
		"selectors": len(r.selectors),
	}
	for _, t := range []*tables{r.tables, r.staged} {
		if t == nil {
			continue
		}
		n["services"] += len(t.services)
		n["slices"] += t.slices.Len()
		n["slice ids"] += len(t.sliceIDs)
		n["namespaces"] += len(t.pods) + len(t.namespaces) + len(t.inNamespace)
		n["nodes"] += len(t.nodes)
		for _, r := range t.nodes {
			n["pods on nodes"] += len(r.pods)
		}
		for _, pods := range t.pods {
			n["pods"] += len(pods)
			for _, p := range pods {
				n["pod postings"] += len(p.slices)
			}
		}
		for _, s := range t.services {
			n["service postings"] += len(s.slices)
		}
		n["dirty"] += len(t.dirty.services) + len(t.dirty.pods) + len(t.dirty.slices)
		n["moves"] += len(t.moves.due) + len(t.moves.queue)
	}
	return n
}
