package table

// large is how many entries a map may have had to be kept.
const large = 256

// Reset empties m and returns what to use instead of it. Emptying a map costs
// what it could hold rather than what it holds, so one that was large for once
// is left to the collector.
func Reset[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > large {
		return map[K]V{}
	}
	clear(m)
	return m
}
