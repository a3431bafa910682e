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
	sum    [sha256.Size]byte
	config *rest.Config // nil for a directory
	dir    string
	err    error // why the kubeconfig is refused
}

// owner tells claims of different origin apart, also if they read the same.
func (c *claim) owner() string {
	if c.kind == Remote {
		return "secret " + c.secret
	}
	return c.kind.String()
}

// refusal is a claim that is not granted.
type refusal struct {
	claim
	state  State // Invalid or Conflict
	reason string
}

// secretView is what matters of one remote secret: its keys, parsed. The
// kubeconfigs themselves are not kept.
type secretView struct {
	name    string // "namespace/name"
	created time.Time
	keys    []claim // sorted by ID
}

// membership is everything from which follows which clusters there are.
type membership struct {
	own     model.ClusterID // of the config cluster; "" if there is none
	fixed   []claim         // the config cluster
	fleet   []claim         // directories
	secrets []secretView
	lists   []list
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
	if m.secrets != nil {
		l := list{what: "the remote secrets in namespace " + m.options.SecretNamespace}
		w.secrets, l.listed, l.err = m.secrets.snapshot()
		w.lists = append(w.lists, l)
	}
	return w
}

// grant decides who owns which ID. It is level-triggered: whatever happened in
// between, the answer follows from what there is now. The config cluster comes
// first, then directories, then secrets, the older first, then by name. An owner
// whose kubeconfig is refused owns its ID all the same: that its successor
// changes with a typing mistake would be no help to anybody.
func (m *membership) grant() (granted map[model.ClusterID]claim, refused []refusal) {
	granted = map[model.ClusterID]claim{}
	for _, c := range slices.Concat(m.fixed, m.fleet) {
		if owner, taken := granted[c.id]; taken {
			refused = append(refused, refusal{c, Conflict, "the cluster ID belongs to the " + owner.owner() + " cluster"})
			continue
		}
		granted[c.id] = c
	}
	secrets := slices.Clone(m.secrets)
	slices.SortFunc(secrets, func(a, b secretView) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.name, b.name))
	})
	for _, s := range secrets {
		for _, c := range s.keys {
			owner, taken := granted[c.id]
			switch {
			case c.id == m.own && m.own != "":
				refused = append(refused, refusal{c, Conflict, "it is the ID of the config cluster itself (--cluster-id), the key is ignored"})
			case taken:
				refused = append(refused, refusal{c, Conflict, "the cluster ID belongs to " + owner.owner()})
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
		return cmp.Or(strings.Compare(string(a.id), string(b.id)), strings.Compare(a.secret, b.secret), strings.Compare(a.dir, b.dir))
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
