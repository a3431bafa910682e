package model

import "time"

// Trouble tells why a source is not heard in full.
type Trouble uint8

const (
	// NoTrouble means that it answers.
	NoTrouble Trouble = iota
	// Faulty means that it answers, but some of what it says cannot be used; the last
	// good rows stay.
	Faulty
	// Unreachable means that there is no answer, or none that makes sense.
	Unreachable
	// Denied means that it refuses the credential, or the credential may not read the kind.
	Denied
)

func (t Trouble) String() string { return [...]string{"none", "faulty", "unreachable", "denied"}[t] }

// KindHealth is what a source has observed of itself for one kind.
type KindHealth struct {
	// Answered: a list was answered, at least in part.
	Answered bool
	// Trouble and Detail say what is wrong now, and Since when it began.
	Trouble Trouble
	Detail  string
	Since   time.Time
	// Remark tells what is missing without being a trouble: a kind that a source
	// may be without and is not allowed to read.
	Remark string
	// LastError is the last failure, over or not, and LastErrorAt when it was.
	LastError   string
	LastErrorAt time.Time
	// LastEvent is when something was heard last: a page, an event, a bookmark.
	LastEvent time.Time
	// Version is the newest resourceVersion heard; "" if the source has none.
	Version string
	// Errors counts failed requests, Overdue those of them that were given up
	// because nothing came, Dropped the parts of objects (ports,
	// addresses) and the whole objects that could not be used.
	Errors  uint64
	Overdue uint64
	Dropped uint64
	// LastDropped names the last object of which something was dropped, as
	// namespace/name; "" if there was none.
	LastDropped string
}

// SourceHealth is what a source has observed of itself.
type SourceHealth struct {
	Kinds [Kinds]KindHealth
}

// Worst returns the kind that is worst off, the first of equals.
func (h *SourceHealth) Worst() (Kind, *KindHealth) {
	worst := Kind(0)
	for k := range Kinds {
		if h.Kinds[k].Trouble > h.Kinds[worst].Trouble {
			worst = k
		}
	}
	return worst, &h.Kinds[worst]
}

// Remarks lists the remarks of all kinds.
func (h *SourceHealth) Remarks() (remarks []string) {
	for k := range Kinds {
		if r := h.Kinds[k].Remark; r != "" {
			remarks = append(remarks, r)
		}
	}
	return remarks
}

// Answered reports whether any kind was answered.
func (h *SourceHealth) Answered() bool {
	for k := range Kinds {
		if h.Kinds[k].Answered {
			return true
		}
	}
	return false
}
