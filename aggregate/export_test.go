package aggregate

// Sizes counts what the core holds, for tests of leaks.
func Sizes(a *Aggregator) map[string]int {
	rows := 0
	for _, r := range a.services {
		rows += len(r.definitions) + len(r.slices)
	}
	return map[string]int{
		"registries": len(a.registries), "order": len(a.order), "services": len(a.services), "reports": rows, "dirty": len(a.dirty),
		"gone": len(a.gone), "selecting": len(a.cross.selecting), "wired": len(a.cross.registries),
	}
}

// Queues counts the queues of an inbox.
func Queues(in *Inbox) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.queues)
}
