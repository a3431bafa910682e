package model

import (
	"slices"
	"strings"
)

// Visibility says to clients of which namespaces a service is shown: the empty
// text stands for all, "~" for none, else it is names of namespaces, sorted and
// joined by commas. Equal texts mean the same.
type Visibility string

// Shown to everybody, or to nobody.
const (
	Everywhere Visibility = ""
	Nowhere    Visibility = "~"
)

// VisibleIn returns the visibility in these namespaces; with none of them it is
// Everywhere, as where nothing is said.
func VisibleIn(namespaces ...string) Visibility {
	list := slices.Sorted(slices.Values(namespaces))
	return Visibility(strings.Join(slices.Compact(list), ","))
}

func (v Visibility) String() string {
	switch v {
	case Everywhere:
		return "everywhere"
	case Nowhere:
		return "nowhere"
	}
	return "in " + strings.ReplaceAll(string(v), ",", ", ")
}

// To reports whether clients of a namespace are shown what has v.
func (v Visibility) To(namespace string) bool {
	if v == Everywhere || v == Nowhere {
		return v == Everywhere
	}
	for rest, more := string(v), true; more; {
		var one string
		if one, rest, more = strings.Cut(rest, ","); one == namespace {
			return namespace != ""
		}
	}
	return false
}
