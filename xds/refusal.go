package xds

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A refusal names no resource, and one bad resource spoils its response: Envoy
// drops all clusters of it. So what is bad is found by trying. A refused response
// comes again in two parts, each a response of its own: the resources that the
// client's message quotes apart from the rest, else two halves. Parts that are
// refused are parted again, and a resource that is refused alone is condemned: the
// client is not sent it again as it is. Its siblings arrive meanwhile. Each refusal
// makes a part smaller, so n resources of which k are bad take some 2k*log2(n)
// responses, and 2n if the client refuses all of them.
//
// The message alone condemns nothing: it may quote a sibling as well.
//
// Where a response is all there is (clusters and listeners of the state of the
// world) a part cannot be sent alone, and what is left out is gone. There, what
// waits for its turn or is condemned is replaced by what the client accepted
// before, and only what differs from that is suspected.

// condemnation is why a resource is not sent.
type condemnation struct {
	hash   uint64
	reason string
}

// maxReason bounds what is kept and logged of a client's message, in bytes.
const maxReason = 1024

// cleanReason returns a client's message without what could harm a terminal or a
// log, and not longer than maxReason.
func cleanReason(message string) string {
	const cut = "..."
	short := message
	if len(short) > maxReason {
		short = short[:maxReason-len(cut)]
		for len(short) > 0 && !utf8.RuneStart(message[len(short)]) {
			short = short[:len(short)-1]
		}
	}
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, short)
	if len(clean) > maxReason-len(cut) {
		clean = clean[:maxReason-len(cut)]
	}
	if len(short) < len(message) {
		clean += cut
	}
	if strings.TrimSpace(clean) == "" {
		return "refused without a reason"
	}
	return strings.Clone(clean) // not the whole message
}

// settle takes in the client's verdict on the last response: failure is its
// message, or "" if it accepted. It returns the resource that is condemned by it;
// nil if there is none.
func (w *watch) settle(failure string) *Resource {
	r := w.response
	w.response = nil
	if failure == "" {
		w.acked, w.failure = r.nonce, ""
		if r.whole {
			w.good, w.accepted = r.resources, r.version
		}
		if len(w.leaving) == 0 && len(w.groups) == 0 {
			w.shown = w.cursor // which stands still while a response is open
		}
		return nil
	}
	// Nothing of a refused response counts as delivered.
	w.failure = cleanReason(failure)
	for _, res := range r.resources {
		w.undeliver(res.Name)
	}
	for _, n := range r.removed {
		w.undeliver(n)
	}
	suspects := w.suspects(r)
	switch len(suspects) {
	case 0:
		w.refused = append(w.refused, r.removed...)
		slices.Sort(w.refused)
		w.refused = slices.Compact(w.refused)
		return nil
	case 1:
		if w.condemned == nil {
			w.condemned = map[string]condemnation{}
		}
		w.condemned[suspects[0].Name] = condemnation{suspects[0].Hash, w.failure}
		if len(r.removed) > 0 {
			w.groups = slices.Insert(w.groups, 0, r.removed)
		}
		return suspects[0]
	}
	first, second := part(suspects, failure)
	w.groups = slices.Insert(w.groups, 0, append(first, r.removed...), second)
	return nil
}

func (w *watch) undeliver(name string) {
	if _, ok := w.names[name]; ok {
		w.names[name] = unsure
	}
}

// suspects returns the resources of r that the client has not accepted as they
// are.
func (w *watch) suspects(r *response) []*Resource {
	if !r.whole {
		return r.resources
	}
	good := make(map[string]uint64, len(w.good))
	for _, res := range w.good {
		good[res.Name] = res.Hash
	}
	var list []*Resource
	for _, res := range r.resources {
		if hash, ok := good[res.Name]; !ok || hash != res.Hash {
			list = append(list, res)
		}
	}
	return list
}

// part divides two or more suspects in two: those that the message does not quote
// and those that it does, or two halves if it quotes none or all.
func part(suspects []*Resource, message string) (first, second []string) {
	const readable = 8 << 10 // more of a message is not searched
	message = message[:min(len(message), readable)]
	for _, res := range suspects {
		if quotes(message, res.Name) {
			second = append(second, res.Name)
		} else {
			first = append(first, res.Name)
		}
	}
	if len(first) == 0 || len(second) == 0 {
		names := resourceNames(suspects)
		half := len(names) / 2
		return slices.Clip(names[:half]), names[half:]
	}
	return first, second
}

// quotes reports whether a message has a name, and not a longer one that it is a
// part of. A number is no quote: messages have numbers of their own.
func quotes(message, name string) bool {
	if !strings.ContainsFunc(name, unicode.IsLetter) {
		return false
	}
	inName := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("|_-~/", r)
	}
	for at := 0; ; {
		i := strings.Index(message[at:], name)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(name)
		before, _ := utf8.DecodeLastRuneInString(message[:start])
		after, size := utf8.DecodeRuneInString(message[end:])
		if after == '.' || after == ':' { // of a sentence, or of a longer name
			after, _ = utf8.DecodeRuneInString(message[end+size:])
		}
		if !inName(before) && before != '.' && !inName(after) {
			return true
		}
		at = start + 1
	}
}

// barred reports whether res must not be sent: the client refused it, or others of
// its class did. Another version of a condemned resource is given a try.
func (w *watch) barred(v *view, res *Resource) bool {
	if c, ok := w.condemned[res.Name]; ok {
		if c.hash == res.Hash {
			return true
		}
		delete(w.condemned, res.Name)
	}
	return v.quarantine.has(charge{v.node.Class, w.url, res.Name, res.Hash})
}

// trial returns a response with the next part of what was refused; nil if there is
// none. It says nothing of what changed, so the cursor stays.
func (w *watch) trial(v *view) *response {
	for {
		group := w.nextGroup()
		if group == nil {
			return nil
		}
		r := &response{url: w.url, trial: true, since: w.cursor}
		for _, n := range group {
			w.putOrDepart(r, v, n, false) // what is gone had its turn
		}
		if !w.isDelta {
			r.removed = nil
		}
		if len(r.resources)+len(r.removed) == 0 {
			continue // it changed meanwhile, and is nothing now
		}
		r.version = sumVersion(r.resources)
		if w.url == ClusterType {
			r.touched = resourceNames(r.resources)
		}
		return r
	}
}

// nextGroup takes the next part of what was refused; nil if there is none.
func (w *watch) nextGroup() []string {
	if len(w.groups) == 0 {
		w.groups = nil
		return nil
	}
	group := w.groups[0]
	w.groups = w.groups[1:]
	return group
}

// aside returns the names that wait for a trial of their own.
func (w *watch) aside() map[string]struct{} {
	if len(w.groups) == 0 {
		return nil
	}
	names := map[string]struct{}{}
	for _, g := range w.groups {
		for _, n := range g {
			names[n] = struct{}{}
		}
	}
	return names
}

// waits reports whether a name waits for a trial.
func (w *watch) waits(name string) bool {
	return slices.ContainsFunc(w.groups, func(g []string) bool { return slices.Contains(g, name) })
}
