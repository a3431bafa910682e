package clusters

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"tributary/model"
)

// Type tells where a cluster is known from.
type Type uint8

const (
	// Local is the config cluster: the one that holds the remote secrets.
	Local Type = iota
	// Remote is known from a secret.
	Remote
	// Directory is played by a directory of manifests.
	Directory
)

func (t Type) String() string { return [...]string{"local", "remote", "directory"}[t] }

// claim is somebody's wish that a cluster of that ID be followed.
type claim struct {
	id     model.ClusterID
	kind   Type
	secret string // "namespace/name"; "" unless from a secret
	file   string // path; "" unless from a file
	sum    [sha256.Size]byte
	config *rest.Config // nil for a directory
	dir    string
	err    error // why the kubeconfig is refused
}

// owner tells claims of different origin apart, also if they read the same.
func (c *claim) owner() string {
	switch {
	case c.file != "":
		return "file " + c.file
	case c.kind == Remote:
		return "secret " + c.secret
	}
	return c.kind.String()
}

// origin names the claim in the log: its ID and where it is from.
func (c *claim) origin() []any {
	attrs := []any{"cluster", c.id}
	for _, a := range []struct{ name, value string }{{"secret", c.secret}, {"file", c.file}, {"dir", c.dir}} {
		if a.value != "" {
			attrs = append(attrs, a.name, a.value)
		}
	}
	return attrs
}

// succeeds reports whether c is the claim that was, perhaps with another
// credential, and not somebody else's on the same ID. A kubeconfig file with
// another name is the same claim if it reads the same.
func (c *claim) succeeds(was *claim) bool {
	return c.owner() == was.owner() || c.file != "" && was.file != "" && c.sum == was.sum
}

// lost tells that nobody makes the claim any more.
func (c *claim) lost() string {
	switch {
	case c.file != "":
		return "file " + c.file + " is gone, or names another cluster"
	case c.secret != "":
		return "secret " + c.secret + " is gone, or has no such key any more"
	case c.dir != "":
		return "directory " + c.dir + " is gone"
	}
	return "it is not wanted any more"
}

// refusal is a claim that is not granted.
type refusal struct {
	claim
	state  State // Invalid, Conflict or Removed
	reason string
}

// secretView is what matters of one remote secret: its keys, parsed. The
// kubeconfigs themselves are not kept.
type secretView struct {
	name    string // "namespace/name"
	created time.Time
	keys    []claim // sorted by ID
	atOnce  bool    // its clusters are to go at once (RemoveAnnotation)
}

// membership is everything from which follows which clusters there are.
type membership struct {
	own     model.ClusterID // of the config cluster; "" if there is none
	fixed   []claim         // the config cluster
	fleet   []claim         // directories
	files   []claim         // kubeconfigs, sorted by file
	secrets []secretView
	atOnce  []string // secrets whose clusters are to go at once, there or not
	lists   []list
}

// removesNow reports whether the cluster of a claim is to go at once.
func (m *membership) removesNow(c *claim) bool {
	return c.secret != "" && slices.Contains(m.atOnce, c.secret)
}

// list is a place that clusters are known from.
type list struct {
	what   string
	listed bool  // it was read at least once
	err    error // why it cannot be read now
}

// wanted collects what is wanted of all places, as of one moment.
func (m *Manager) wanted() (w membership) {
	w.own = m.options.ClusterID
	if m.options.Config != nil {
		w.fixed = []claim{{id: m.options.ClusterID, kind: Local, config: m.options.Config}}
	}
	if m.fleet != nil {
		l := list{what: "the fleet in " + m.options.Fleet}
		w.fleet, l.listed, l.err = m.fleet.snapshot()
		w.lists = append(w.lists, l)
	}
	if m.files != nil {
		l := list{what: "the kubeconfigs in " + m.options.KubeconfigDir}
		w.files, l.listed, l.err = m.files.snapshot()
		w.lists = append(w.lists, l)
	}
	if m.secrets != nil {
		l := list{what: "the remote secrets in namespace " + m.options.SecretNamespace}
		w.secrets, l.listed, l.err = m.secrets.snapshot()
		w.atOnce = m.secrets.takeAtOnce()
		for _, s := range w.secrets {
			if s.atOnce {
				w.atOnce = append(w.atOnce, s.name)
			}
		}
		w.lists = append(w.lists, l)
	}
	return w
}

// grant decides who owns which ID. It is level-triggered: whatever happened in
// between, the answer follows from what there is now. The config cluster comes
// first, then directories, then files by name, which are the operator's, then
// secrets, the older first, then by name. An owner
// whose kubeconfig is refused owns its ID all the same: that its successor
// changes with a typing mistake would be no help to anybody.
func (m *membership) grant() (granted map[model.ClusterID]claim, refused []refusal) {
	granted = map[model.ClusterID]claim{}
	for _, c := range slices.Concat(m.fixed, m.fleet, m.files) {
		owner, taken := granted[c.id]
		switch {
		case c.id == "": // a file that does not even tell whose it is
			refused = append(refused, refusal{c, Invalid, c.err.Error()})
		case taken && owner.file != "":
			refused = append(refused, refusal{c, Conflict, "the cluster ID belongs to " + owner.owner()})
		case taken:
			refused = append(refused, refusal{c, Conflict, "the cluster ID belongs to the " + owner.owner() + " cluster"})
		default:
			granted[c.id] = c
		}
	}
	secrets := slices.Clone(m.secrets)
	slices.SortFunc(secrets, func(a, b secretView) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.name, b.name))
	})
	removing := map[model.ClusterID]claim{}
	for _, s := range secrets {
		for _, c := range s.keys {
			owner, taken := granted[c.id]
			if r, ok := removing[c.id]; ok {
				owner, taken = r, true
			}
			switch {
			case c.id == m.own && m.own != "":
				refused = append(refused, refusal{c, Conflict, "it is the ID of the config cluster itself (--cluster-id), the key is ignored"})
			case taken:
				refused = append(refused, refusal{c, Conflict, "the cluster ID belongs to " + owner.owner()})
			case s.atOnce:
				removing[c.id] = c
				refused = append(refused, refusal{c, Removed, "its secret asks for that with the annotation " + RemoveAnnotation + "=" + RemoveNow})
			default:
				granted[c.id] = c
			}
		}
	}
	for _, c := range granted {
		if c.err != nil {
			refused = append(refused, refusal{c, Invalid, c.err.Error()})
		}
	}
	slices.SortFunc(refused, func(a, b refusal) int {
		return cmp.Or(strings.Compare(string(a.id), string(b.id)), strings.Compare(a.secret, b.secret), strings.Compare(a.file, b.file), strings.Compare(a.dir, b.dir))
	})
	return granted, refused
}

// parseClaim reads one key of a secret. before is what the key held earlier, if
// anything: an unchanged kubeconfig is not parsed again.
func parseClaim(secret string, key string, data []byte, before *claim, allowInsecure bool) claim {
	sum := sha256.Sum256(data)
	if before != nil && before.sum == sum {
		return *before
	}
	c := claim{id: model.ClusterID(key), kind: Remote, secret: secret, sum: sum}
	if c.config, c.err = parseKubeconfig(data, allowInsecure); c.err != nil {
		c.config = nil
		c.err = fmt.Errorf("kubeconfig in secret %s, key %s: %w", secret, key, c.err)
	}
	return c
}
