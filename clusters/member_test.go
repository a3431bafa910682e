package clusters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary/model"
)

func remote(id, secret string) claim {
	return claim{id: model.ClusterID(id), kind: Remote, secret: secret}
}

// show prints who owns what and what is refused.
func show(granted map[model.ClusterID]claim, refused []refusal) string {
	var b strings.Builder
	for _, id := range sorted(granted) {
		c := granted[id]
		fmt.Fprintf(&b, "%s: %s\n", id, c.owner())
	}
	for _, r := range refused {
		fmt.Fprintf(&b, "%s %s %s: %s\n", r.state, r.id, r.owner(), r.reason)
	}
	return b.String()
}

func TestGrant(t *testing.T) {
	old, young := time.Unix(100, 0), time.Unix(200, 0)
	bad := remote("broken", "ns/a")
	bad.err = errors.New("exec is not allowed")
	m := membership{
		own:   "config",
		fixed: []claim{{id: "config", kind: Local}},
		fleet: []claim{{id: "dir", kind: Directory, dir: "/f/dir"}, {id: "config", kind: Directory, dir: "/f/config"}},
		secrets: []secretView{
			{name: "ns/z-older", created: old, keys: []claim{remote("shared", "ns/z-older")}},
			{name: "ns/a-younger", created: young, keys: []claim{remote("shared", "ns/a-younger"), remote("two", "ns/a-younger")}},
			{name: "ns/b", created: young, keys: []claim{remote("config", "ns/b"), remote("dir", "ns/b"), remote("two", "ns/b")}},
			{name: "ns/a", created: young, keys: []claim{bad}},
		},
	}
	const want = `broken: secret ns/a
config: local
dir: directory
shared: secret ns/z-older
two: secret ns/a-younger
invalid broken secret ns/a: exec is not allowed
conflict config directory: the cluster ID belongs to the local cluster
conflict config secret ns/b: it is the ID of the config cluster itself (--cluster-id), the key is ignored
conflict dir secret ns/b: the cluster ID belongs to directory
conflict shared secret ns/a-younger: the cluster ID belongs to secret ns/z-older
conflict two secret ns/b: the cluster ID belongs to secret ns/a-younger
`
	for range 20 { // whatever order the secrets come in
		rand.Shuffle(len(m.secrets), func(i, j int) { m.secrets[i], m.secrets[j] = m.secrets[j], m.secrets[i] })
		if got := show(m.grant()); got != want {
			t.Fatalf("got:\n%s\nwant:\n%s", got, want)
		}
	}
	// The owner goes: the other one takes over.
	m.secrets = slices.DeleteFunc(m.secrets, func(s secretView) bool { return s.name == "ns/z-older" })
	if granted, _ := m.grant(); granted["shared"].secret != "ns/a-younger" {
		t.Errorf("owner %q", granted["shared"].secret)
	}
}

func TestParseClaimKeepsWhatIsUnchanged(t *testing.T) {
	first := parseClaim("ns/s", "c1", []byte(goodKubeconfig("a")), nil, false)
	if first.err != nil || first.config == nil {
		t.Fatalf("claim %+v", first)
	}
	if again := parseClaim("ns/s", "c1", []byte(goodKubeconfig("a")), &first, false); again.config != first.config {
		t.Error("an unchanged kubeconfig was parsed again")
	}
	if other := parseClaim("ns/s", "c1", []byte(goodKubeconfig("b")), &first, false); other.sum == first.sum || other.config == first.config {
		t.Error("a changed kubeconfig was not noticed")
	}
	bad := parseClaim("ns/s", "c1", []byte("x: ["), &first, false)
	if bad.config != nil || bad.err == nil || !strings.Contains(bad.err.Error(), "secret ns/s, key c1") {
		t.Errorf("claim %+v", bad)
	}
}
