package aggregate_test

import "pgregory.net/rapid"

func neverMissing(t *rapid.T) {}
