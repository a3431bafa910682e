package xds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"tributary/model"
)

// A transcript is what a client and the registry do, line by line, and what is
// answered to each of it:
//
//	set a 80 81            service a has the HTTP ports 80 and 81 (and udp, or passthrough)
//	ep a 10.0.0.1          its endpoints
//	del a                  it is gone; several changes of one snapshot are joined by ";"
//	> CDS ...              a request; the words after the type are
//	                         state of the world: the names
//	                         delta: +name and -name, have name=same|old for what the client has
//	                         both: ack, nack, nack=name,name (quoted), nonce=N
//	< CDS a:80 -b:80       a response with resources, and with removals
//	< EDS a:80[10.0.0.1]   endpoints are listed, if any
//	reconnect              the stream is gone, another one begins
//	error TEXT             the last line ends the stream with an error that has the text
//
// a:80 stands for outbound|80||a. Whatever is due after a line must stand below
// it, and nothing else. Responses are not acknowledged unless the client says so.
type transcript struct {
	t      *testing.T
	world  *world
	limits Limits
	delta  bool
	node   *corev3.Node
	render *renderer

	session *session
	last    map[string]*response // by type
	failed  error
}

var urls = map[string]string{"CDS": ClusterType, "EDS": EndpointType, "LDS": ListenerType, "RDS": RouteType}

func urlOf(short string) string {
	if u, ok := urls[short]; ok {
		return u
	}
	return "type.googleapis.com/" + short
}

func runTranscript(t *testing.T, delta bool, script string, tombstones int) {
	runTranscriptOf(t, testNode, delta, script, tombstones)
}

func runTranscriptOf(t *testing.T, node *corev3.Node, delta bool, script string, tombstones int) {
	tr := &transcript{t: t, world: newWorld(tombstones), limits: DefaultLimits(), delta: delta, node: node, render: newRenderer(t)}
	tr.limits.Names, tr.limits.Types = 8, 5
	tr.reconnect()
	var lines []string
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		tr.step(line)
		got := tr.due()
		var want []string
		for ; i < len(lines) && (lines[i][0] == '<' || strings.HasPrefix(lines[i], "error ")); i++ {
			want = append(want, lines[i])
		}
		if tr.failed != nil && len(want) == 1 && strings.HasPrefix(want[0], "error ") {
			if !strings.Contains(tr.failed.Error(), want[0][6:]) {
				t.Fatalf("%s\n  the error is %q", line, tr.failed)
			}
			tr.failed = nil
			continue
		}
		if tr.failed != nil {
			t.Fatalf("%s\n  the stream ended: %v", line, tr.failed)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s\n  got:  %s\n  want: %s", line, strings.Join(got, "\n        "), strings.Join(want, "\n        "))
		}
	}
}

func (tr *transcript) reconnect() {
	tr.session, tr.last = newSession(tr.delta, &tr.limits), map[string]*response{}
}

func (tr *transcript) view() *view {
	n := newNode(tr.node)
	return &view{renderer: tr.render, snapshot: tr.world.store.Load(), node: &n}
}

func (tr *transcript) step(line string) {
	if line == "reconnect" {
		tr.reconnect()
		return
	}
	if rest, ok := strings.CutPrefix(line, "> "); ok {
		tr.request(strings.Fields(rest))
		return
	}
	for command := range strings.SplitSeq(line, ";") {
		words := strings.Fields(command)
		k := key(words[1])
		switch words[0] {
		case "set":
			resolution, ports := model.ClientSideLB, []model.Port{}
			for _, w := range words[2:] {
				switch n, err := strconv.Atoi(w); {
				case err == nil:
					ports = append(ports, model.Port{Name: portName(uint16(n)), Number: uint16(n), Protocol: model.HTTP})
				case w == "udp":
					ports[len(ports)-1].Protocol = model.UDP
				case w == "passthrough":
					resolution = model.Passthrough
				default:
					tr.t.Fatalf("%q", line)
				}
			}
			tr.world.define(k, resolution, ports...)
		case "ep":
			tr.world.place(k, words[2:]...)
		case "del":
			tr.world.remove(k)
		default:
			tr.t.Fatalf("%q", line)
		}
	}
	tr.world.commit()
}

func (tr *transcript) request(words []string) {
	r := request{url: urlOf(words[0]), node: tr.node, initial: map[string]string{}}
	have := false
	for _, w := range words[1:] {
		switch {
		case w == "ack", w == "nack", strings.HasPrefix(w, "nack="):
			last := tr.last[r.url]
			if last == nil {
				tr.t.Fatalf("there is nothing to acknowledge: %q", words)
			}
			r.nonce = last.nonce
			if w != "ack" {
				r.refused, r.failure = true, "no"
			}
			if _, list, ok := strings.Cut(w, "="); ok {
				for n := range strings.SplitSeq(list, ",") {
					r.failure += " " + longName(n)
				}
			}
		case strings.HasPrefix(w, "nonce="):
			r.nonce = w[6:]
		case w == "nonode":
			r.node = &corev3.Node{}
		case w == "have":
			have = true
		case have:
			name, what, _ := strings.Cut(w, "=")
			name = longName(name)
			r.initial[name] = "1234"
			if what == "same" {
				r.initial[name] = formatVersion(tr.view().get(r.url, name).Hash)
			}
		case tr.delta && w[0] == '+':
			r.subscribe = append(r.subscribe, longName(w[1:]))
		case tr.delta && w[0] == '-':
			r.unsubscribe = append(r.unsubscribe, longName(w[1:]))
		case !tr.delta:
			r.names = append(r.names, longName(w))
		default:
			tr.t.Fatalf("%q", w)
		}
	}
	if _, err := tr.session.request(r); err != nil {
		tr.failed = err
	}
}

// due makes and describes all responses that are due.
func (tr *transcript) due() []string {
	var lines []string
	for tr.session.node != nil && tr.failed == nil {
		r, err := tr.session.next(tr.view())
		if err != nil {
			tr.failed = err
		}
		if r == nil {
			break
		}
		tr.last[r.url] = r
		b := &strings.Builder{}
		fmt.Fprintf(b, "< %s", ShortType(r.url))
		for _, res := range r.resources {
			fmt.Fprintf(b, " %s", shortName(res.Name))
			if r.url == EndpointType {
				if list := addresses(tr.t, res.Body()); len(list) > 0 {
					fmt.Fprintf(b, "%v", list)
				}
			}
		}
		for _, n := range r.removed {
			fmt.Fprintf(b, " -%s", shortName(n))
		}
		lines = append(lines, b.String())
	}
	return lines
}

// Both variants.
var sharedTranscripts = []struct{ name, script string }{
	{"an empty registry is answered", `
		> CDS
		< CDS
		> LDS
		< LDS http_proxy`},
	{"the first request needs a node, later ones do not", `
		> CDS nonode
		error must carry a node with an id
		> CDS
		< CDS
		> LDS nonode
		< LDS http_proxy`},
	{"too many types", `
		> CDS
		< CDS
		> T1
		< T1
		> T2
		< T2
		> T3
		< T3
		> T4
		< T4
		> T5
		error more than 5 resource types`},
	{"a non-empty nonce on a first request does not matter", `
		set a 80
		> CDS nonce=77
		< CDS a:80`},
	{"a client that does not acknowledge sees only the newest state", `
		> CDS
		< CDS
		set a 80
		set a 80 81
		del a
		set b 80`},
	{"UDP has no clusters, and a headless service has one", `
		set a 53 udp; set b 80 passthrough; set c 80
		> CDS
		< CDS b:80 c:80`},
	{"nothing that clients see changed", `
		set a 80
		> CDS
		< CDS a:80
		> CDS ack
		ep a 10.0.0.1`},
	{"routes change with definitions only", `
		set a 80; ep a 10.0.0.1
		> LDS
		< LDS http_proxy`},
}

var deltaTranscripts = []struct{ name, script string }{
	{"a headless service has no endpoints for a sidecar", `
		set a 80; ep a 10.0.0.1
		> EDS +a:80
		< EDS a:80[10.0.0.1]
		> EDS ack
		set a 80 passthrough
		< EDS a:80
		> EDS ack
		ep a 10.0.0.2
		set a 80; ep a 10.0.0.2
		< EDS a:80[10.0.0.2]`},
	{"wildcard, legacy and explicit", `
		set a 80; set b 80 81
		> CDS
		< CDS a:80 b:80 b:81
		> CDS ack
		set c 80
		< CDS c:80
		reconnect
		> CDS +*
		< CDS a:80 b:80 b:81 c:80
		> CDS ack
		del a; set b 81
		< CDS b:81
		> CDS ack
		< CDS -a:80 -b:80`},
	{"explicit names, known and unknown", `
		set a 80; set b 80
		> CDS +a:80 +x:80
		< CDS a:80 -x:80
		> CDS ack
		set b 80 81
		set x 80
		< CDS x:80
		> CDS ack -x:80
		set x 80 81
		del a
		< CDS -a:80`},
	{"the wildcard is dropped, a name stays", `
		set a 80; set b 80
		> CDS
		< CDS a:80 b:80
		> CDS ack +a:80
		< CDS a:80
		> CDS ack -*
		set b 80 81
		set a 80 81`},
	{"unsubscribing a name that the wildcard covers is answered", `
		set a 80
		> CDS +* +a:80 +x:80
		< CDS a:80 -x:80
		> CDS ack -a:80 -x:80
		< CDS a:80
		> CDS ack
		< CDS -x:80
		> CDS ack
		del a
		< CDS -a:80`},
	{"a name asked for again is answered again, whatever the nonce", `
		set a 80; ep a 10.0.0.1
		> EDS +a:80
		< EDS a:80[10.0.0.1]
		> EDS nonce=99 +a:80
		> EDS ack
		< EDS a:80[10.0.0.1]
		> EDS ack
		> EDS nonce=1 +b:80
		< EDS b:80`},
	{"everything asked for again is answered again", `
		set a 80
		> CDS +*
		< CDS a:80
		> CDS ack
		> CDS +*
		< CDS a:80`},
	{"a wildcard that comes later does not lose a change of a name", `
		set a 80
		> CDS +a:80
		< CDS a:80
		set a 81; set b 80
		> CDS ack +*
		< CDS a:81 b:80
		> CDS ack
		< CDS -a:80`},
	{"a spontaneous request is no acknowledgement", `
		set a 80; set b 80
		> EDS +a:80
		< EDS a:80
		> EDS +b:80
		ep b 10.0.0.2
		> EDS ack
		< EDS b:80[10.0.0.2]`},
	{"an empty first subscription of names is answered", `
		> EDS
		< EDS
		> EDS ack +a:80
		< EDS a:80`},
	{"one resource refused is not sent again as it is", `
		set a 80; ep a 10.0.0.1
		> EDS +a:80
		< EDS a:80[10.0.0.1]
		> EDS nack
		set b 80
		ep a 10.0.0.2
		< EDS a:80[10.0.0.2]
		> EDS nack
		ep a 10.0.0.1
		< EDS a:80[10.0.0.1]`},
	{"a refused response comes again in halves, until the bad one is alone", `
		set a 80; set b 80; set c 80; set d 80
		> CDS
		< CDS a:80 b:80 c:80 d:80
		> CDS nack
		< CDS a:80 b:80
		> CDS ack
		< CDS c:80 d:80
		> CDS nack
		< CDS c:80
		> CDS nack
		< CDS d:80
		> CDS ack
		set e 80
		< CDS e:80
		> CDS ack
		set c 80 81
		< CDS c:81
		> CDS ack
		del c
		< CDS -c:80 -c:81`},
	{"what a refusal quotes is tried apart from the rest, and not believed", `
		set a 80; set b 80; set c 80; set d 80
		> CDS
		< CDS a:80 b:80 c:80 d:80
		> CDS nack=b:80
		< CDS a:80 c:80 d:80
		> CDS nack=a:80,d:80
		< CDS c:80
		> CDS ack
		< CDS a:80 d:80
		> CDS nack=a:80,d:80
		< CDS a:80
		> CDS ack
		< CDS d:80
		> CDS nack
		< CDS b:80
		> CDS ack
		ep a 10.0.0.1`},
	{"parts that are tried have what is new meanwhile", `
		set a 80; set b 80; ep a 10.0.0.1; ep b 10.0.0.2
		> EDS +a:80 +b:80
		< EDS a:80[10.0.0.1] b:80[10.0.0.2]
		> EDS nack
		< EDS a:80[10.0.0.1]
		ep b 10.0.0.9; ep a 10.0.0.8
		> EDS ack
		< EDS b:80[10.0.0.9]
		> EDS ack
		< EDS a:80[10.0.0.8]`},
	{"parts that are gone or given up are left out", `
		set a 80; set b 80; set c 80; ep a 10.0.0.1
		> EDS +a:80 +b:80 +c:80
		< EDS a:80[10.0.0.1] b:80 c:80
		> EDS nack
		< EDS a:80[10.0.0.1]
		> EDS -b:80 -c:80
		> EDS ack`},
	{"endpoints follow the clusters that come again", `
		set a 80; set b 80
		> CDS +a:80 +b:80
		< CDS a:80 b:80
		> EDS +a:80 +b:80
		< EDS a:80 b:80
		> EDS ack
		> CDS nack
		< CDS a:80
		< EDS a:80
		> EDS ack
		> CDS ack
		< CDS b:80
		< EDS b:80`},
	{"a refused removal of a name", `
		set a 80; set b 80
		> CDS +a:80 +b:80
		< CDS a:80 b:80
		> CDS ack
		del a
		< CDS -a:80
		> CDS nack
		set b 81
		< CDS -a:80 -b:80`},
	{"everything is refused, for ever", `
		set a 80; set b 80; set c 80
		> CDS
		< CDS a:80 b:80 c:80
		> CDS nack
		< CDS a:80
		> CDS nack
		< CDS b:80 c:80
		> CDS nack
		< CDS b:80
		> CDS nack
		< CDS c:80
		> CDS nack
		> CDS nonce=1
		set d 80
		< CDS d:80
		> CDS nack
		set d 80
		del a; del b; del c; del d
		< CDS -a:80 -b:80 -c:80 -d:80`},
	{"make before break: what is gone goes last, and in the other order", `
		set a 80; ep a 10.0.0.1; set b 80
		> CDS
		< CDS a:80 b:80
		> EDS +a:80 +b:80
		< EDS a:80[10.0.0.1] b:80
		> RDS +http_proxy
		< RDS http_proxy
		> CDS ack
		> EDS ack
		> RDS ack
		del a; set c 80
		< CDS c:80
		< RDS http_proxy
		< EDS a:80
		> CDS ack
		< CDS -a:80`},
	{"a cluster stays until the routes without it are sent", `
		set a 80; set b 80
		> CDS
		< CDS a:80 b:80
		> CDS ack
		> RDS +http_proxy
		< RDS http_proxy
		del a
		> RDS ack
		< RDS http_proxy
		< CDS -a:80`},
	{"what is gone is back before it was told", `
		set a 80; set b 80
		> CDS
		< CDS a:80 b:80
		> CDS ack
		> RDS +http_proxy
		< RDS http_proxy
		del a
		set a 80
		< CDS a:80
		> RDS ack
		> CDS ack`},
	{"reconnect: equal, different, vanished and new", `
		set a 80; set b 80; set d 80
		> CDS have a:80=same b:80=old c:80=old
		< CDS b:80 d:80
		> CDS ack
		< CDS -c:80
		> EDS +a:80 +b:80 +c:80 +d:80 have a:80=same b:80=old c:80=old
		< EDS b:80 d:80
		> EDS ack
		< EDS c:80`},
	{"reconnect: nothing changed, nothing is sent", `
		set a 80; ep a 10.0.0.1
		> CDS +* have a:80=same
		> EDS +a:80 have a:80=same
		> LDS have http_proxy=same
		> RDS +http_proxy have http_proxy=same
		ep a 10.0.0.2
		< EDS a:80[10.0.0.2]`},
	{"versions count in the first request alone", `
		set a 80; set b 80
		> EDS +a:80
		< EDS a:80
		> EDS ack +b:80 have b:80=same
		< EDS b:80`},
	{"endpoints follow their clusters, changed or not", `
		set a 80; ep a 10.0.0.1; set b 80; ep b 10.0.0.2
		> CDS
		< CDS a:80 b:80
		> EDS +a:80 +b:80
		< EDS a:80[10.0.0.1] b:80[10.0.0.2]
		> EDS ack
		> CDS ack
		set a 80 81
		< CDS a:80 a:81
		< EDS a:80[10.0.0.1]
		> EDS ack +a:81
		< EDS a:81
		> CDS ack`},
	{"endpoints that must follow wait for the acknowledgement of those before", `
		set a 80; ep a 10.0.0.1
		> CDS
		< CDS a:80
		> EDS +a:80
		< EDS a:80[10.0.0.1]
		> CDS ack
		set a 80 81
		< CDS a:80 a:81
		> EDS ack
		< EDS a:80[10.0.0.1]`},
	{"a cluster appears between the answer and the request for endpoints", `
		set a 80
		> CDS
		< CDS a:80
		set b 80; ep b 10.0.0.2
		> EDS +a:80 +b:80
		< EDS a:80 b:80[10.0.0.2]
		> CDS ack
		< CDS b:80`},
	{"endpoints of a cluster that is gone meanwhile", `
		set a 80; ep a 10.0.0.1
		> CDS
		< CDS a:80
		del a
		> EDS +a:80
		< EDS a:80
		> CDS ack
		< CDS -a:80`},
	{"endpoints asked for before their service exists", `
		> EDS +a:80 +nonsense
		< EDS nonsense a:80
		> EDS ack
		set a 80; ep a 10.0.0.1
		< EDS a:80[10.0.0.1]`},
	{"a drained service has an empty assignment", `
		set a 80; ep a 10.0.0.1
		> EDS +a:80
		< EDS a:80[10.0.0.1]
		> EDS ack
		ep a
		< EDS a:80
		> EDS ack
		del a
		> EDS -a:80
		set a 80; ep a 10.0.0.1`},
	{"removed and added again, between two looks and apart", `
		set a 80; ep a 10.0.0.1
		> CDS
		< CDS a:80
		> EDS +a:80
		< EDS a:80[10.0.0.1]
		> EDS ack
		> CDS ack
		del a
		< EDS a:80
		< CDS -a:80
		> CDS ack
		> EDS ack -a:80
		set a 80; ep a 10.0.0.2
		< CDS a:80
		> EDS +a:80
		< EDS a:80[10.0.0.2]
		del a
		set a 81
		> CDS ack
		< CDS a:81
		> CDS ack
		< CDS -a:80`},
	{"ports go, by number and by protocol", `
		set a 80 81 82
		> CDS
		< CDS a:80 a:81 a:82
		> CDS ack
		set a 80 82 udp
		< CDS a:80
		> CDS ack
		< CDS -a:81 -a:82`},
	{"a port that went is told once", `
		set a 80 81
		> CDS
		< CDS a:80 a:81
		> CDS ack
		set a 80
		< CDS a:80
		> CDS ack
		< CDS -a:81
		> CDS ack
		set a 80 82
		< CDS a:80 a:82`},
	{"unknown types and names are answered", `
		> Foo +x +y
		< Foo -x -y
		> Bar
		< Bar
		> RDS +80 +http_proxy +0 +080 +65536 +x
		< RDS 80 http_proxy -0 -080 -65536 -x`},
	{"too many names", `
		> EDS +a:1 +a:2 +a:3 +a:4
		< EDS a:1 a:2 a:3 a:4
		> EDS ack +a:5 +a:6 +a:7 +a:8 +a:9
		error setting xds.maxNames`},
	{"too many names that are given up while nothing is acknowledged", `
		> CDS +*
		< CDS
		> CDS +a:1 +a:2 +a:3 +a:4
		> CDS -a:1 -a:2 -a:3 -a:4
		> CDS +b:1 +b:2 +b:3 +b:4
		> CDS -b:1 -b:2 -b:3 -b:4
		> CDS +c:1
		error setting xds.maxNames`},
	{"routes change with definitions", `
		set a 80; ep a 10.0.0.1
		> RDS +http_proxy
		< RDS http_proxy
		> RDS ack
		ep a 10.0.0.2
		set a 80; ep a 10.0.0.1
		set b 80
		< RDS http_proxy
		> RDS ack
		del b
		< RDS http_proxy`},
	{"the order of types is that of their dependencies", `
		> RDS +http_proxy
		< RDS http_proxy
		> EDS +a:80
		< EDS a:80
		> CDS
		< CDS
		> RDS ack
		> EDS ack
		> CDS ack
		set a 80; ep a 10.0.0.1
		< CDS a:80
		< EDS a:80[10.0.0.1]
		< RDS http_proxy`},
}

var sotwTranscripts = []struct{ name, script string }{
	{"wildcard, legacy", `
		set a 80; set b 80 81
		> CDS
		< CDS a:80 b:80 b:81
		> CDS ack
		set c 80
		< CDS a:80 b:80 b:81 c:80
		> CDS ack
		del a
		< CDS b:80 b:81 c:80`},
	{"wildcard, explicit, and left again", `
		set a 80; set b 80
		> CDS *
		< CDS a:80 b:80
		> CDS * a:80 ack
		< CDS a:80 b:80
		> CDS * a:80 ack
		set b 80 81
		< CDS a:80 b:80 b:81
		> CDS a:80 ack
		set b 80
		set a 80 81
		< CDS a:80
		> CDS ack
		set a 80; set b 81`},
	{"a legacy wildcard ends with the first name", `
		set a 80; set b 80
		> CDS
		< CDS a:80 b:80
		> CDS a:80 ack
		< CDS a:80
		> CDS a:80 ack
		set b 80 81`},
	{"explicit names, known and unknown", `
		set a 80; set b 80
		> CDS a:80 x:80
		< CDS a:80
		> CDS a:80 x:80 ack
		set x 80
		< CDS a:80 x:80
		> CDS a:80 x:80 ack
		del a
		< CDS x:80`},
	{"unknown types and names are answered", `
		> Foo x y
		< Foo
		> Bar
		< Bar
		> RDS 80 x
		< RDS 80
		> EDS nonsense
		< EDS nonsense`},
	{"a stale nonce is ignored", `
		set a 80; set b 80; set c 80
		> EDS a:80
		< EDS a:80
		> EDS b:80 nonce=77
		> EDS a:80 b:80 ack
		< EDS b:80
		> EDS a:80 b:80 c:80 nonce=1
		> EDS a:80 b:80 ack`},
	{"an empty nonce is a new subscription", `
		set a 80; ep a 10.0.0.1
		> EDS a:80
		< EDS a:80[10.0.0.1]
		> EDS a:80 ack
		> EDS a:80
		< EDS a:80[10.0.0.1]`},
	{"names come and go", `
		set a 80; set b 80; ep a 10.0.0.1; ep b 10.0.0.2
		> EDS a:80
		< EDS a:80[10.0.0.1]
		> EDS a:80 b:80 ack
		< EDS b:80[10.0.0.2]
		> EDS b:80 ack
		ep a 10.0.0.9
		> EDS a:80 b:80 ack
		< EDS a:80[10.0.0.9]
		> EDS ack
		ep a 10.0.0.8`},
	{"a refused response comes again in halves, until the bad one is alone", `
		set a 80; set b 80; ep a 10.0.0.1; ep b 10.0.0.2
		> EDS a:80 b:80
		< EDS a:80[10.0.0.1] b:80[10.0.0.2]
		> EDS a:80 b:80 nack
		< EDS a:80[10.0.0.1]
		> EDS a:80 b:80 nack
		< EDS b:80[10.0.0.2]
		> EDS a:80 b:80 ack
		set c 80
		ep b 10.0.0.3
		< EDS b:80[10.0.0.3]
		> EDS a:80 b:80 ack
		ep a 10.0.0.8
		< EDS a:80[10.0.0.8]`},
	{"a cluster refused alone is left out, or stays as it was", `
		set a 80
		> CDS
		< CDS a:80
		> CDS nack
		> CDS nonce=1
		ep a 10.0.0.1
		set b 80
		< CDS b:80
		> CDS ack
		set a 80 81
		< CDS a:81 b:80
		> CDS ack
		set b 80 udp; set c 80
		< CDS b:80 c:80 a:81
		> CDS ack
		< CDS a:81 c:80`},
	{"of all clusters only those are suspected that were not accepted", `
		set a 80; set b 80
		> CDS
		< CDS a:80 b:80
		> CDS ack
		set c 80; set d 80
		< CDS a:80 b:80 c:80 d:80
		> CDS nack
		< CDS a:80 b:80 c:80
		> CDS nack
		< CDS a:80 b:80 d:80
		> CDS ack
		set e 80
		< CDS a:80 b:80 d:80 e:80
		> CDS ack
		del c
		del a
		< CDS b:80 d:80 e:80`},
	{"make before break: what is gone goes last", `
		set a 80; ep a 10.0.0.1; set b 80
		> CDS
		< CDS a:80 b:80
		> EDS a:80 b:80
		< EDS a:80[10.0.0.1] b:80
		> RDS http_proxy
		< RDS http_proxy
		> CDS ack
		> EDS a:80 b:80 ack
		> RDS http_proxy ack
		del a; set c 80
		< CDS a:80 b:80 c:80
		< RDS http_proxy
		< EDS a:80
		> CDS ack
		< CDS b:80 c:80`},
	{"a cluster stays until the routes without it are sent", `
		set a 80; set b 80
		> CDS
		< CDS a:80 b:80
		> CDS ack
		> RDS http_proxy
		< RDS http_proxy
		del a
		> RDS http_proxy ack
		< RDS http_proxy
		< CDS b:80`},
	{"endpoints follow the clusters that changed", `
		set a 80; ep a 10.0.0.1; set b 80; ep b 10.0.0.2
		> CDS
		< CDS a:80 b:80
		> EDS a:80 b:80
		< EDS a:80[10.0.0.1] b:80[10.0.0.2]
		> EDS a:80 b:80 ack
		> CDS ack
		set a 80 81
		< CDS a:80 a:81 b:80
		< EDS a:80[10.0.0.1]
		> CDS ack
		> EDS a:80 a:81 b:80 ack
		< EDS a:81`},
	{"a definition that renders the same is not sent", `
		set a 80
		> CDS
		< CDS a:80
		> CDS ack
		set a 80; set b 53 udp`},
	{"a cluster appears between the answer and the request for endpoints", `
		set a 80
		> CDS
		< CDS a:80
		set b 80; ep b 10.0.0.2
		> EDS a:80 b:80
		< EDS a:80 b:80[10.0.0.2]
		> CDS ack
		< CDS a:80 b:80`},
	{"endpoints of a cluster that is gone meanwhile, and of one that is removed", `
		set a 80; ep a 10.0.0.1; set b 80; ep b 10.0.0.2
		> CDS
		< CDS a:80 b:80
		del a
		> EDS a:80 b:80
		< EDS a:80 b:80[10.0.0.2]
		> EDS a:80 b:80 ack
		> CDS ack
		< CDS b:80
		del b
		< EDS b:80
		> CDS ack
		< CDS`},
	{"reconnect: a whole answer, whatever the version", `
		set a 80
		> CDS nonce=9
		< CDS a:80
		> CDS ack
		reconnect
		> CDS nonce=1
		< CDS a:80`},
	{"routes change with definitions", `
		set a 80; ep a 10.0.0.1
		> RDS http_proxy
		< RDS http_proxy
		> RDS http_proxy ack
		ep a 10.0.0.2
		set b 80
		< RDS http_proxy`},
	{"too many names", `
		> EDS a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9
		error setting xds.maxNames`},
}

func TestTranscripts(t *testing.T) {
	for _, s := range sharedTranscripts {
		t.Run("both/"+s.name, func(t *testing.T) {
			runTranscript(t, true, s.script, shardsTombstones)
			runTranscript(t, false, s.script, shardsTombstones)
		})
	}
	for _, s := range deltaTranscripts {
		t.Run("delta/"+s.name, func(t *testing.T) { runTranscript(t, true, s.script, shardsTombstones) })
	}
	for _, s := range sotwTranscripts {
		t.Run("sotw/"+s.name, func(t *testing.T) { runTranscript(t, false, s.script, shardsTombstones) })
	}
}

const shardsTombstones = 100

// More services go than are remembered while a client owes an acknowledgement.
func TestTranscriptsBeyondTheFloor(t *testing.T) {
	for _, s := range []struct {
		name, script string
		delta        bool
	}{
		{"explicit names are compared", `
			set a 80; ep a 10.0.0.1; set b 80; set c 80; set d 80
			> EDS +a:80 +b:80 +c:80
			< EDS a:80[10.0.0.1] b:80 c:80
			del b
			del c
			del a
			del d
			> EDS ack
			< EDS a:80`, true},
		{"routes are compared", `
			set a 80; set b 80; set c 80
			> RDS +http_proxy
			< RDS http_proxy
			del b
			del c
			del a
			> RDS ack
			< RDS http_proxy`, true},
		{"everything, delta: the client must say what it has", `
			set a 80; set b 80; set c 80
			> CDS
			< CDS a:80 b:80 c:80
			del a
			del b
			> CDS ack
			error must reconnect
			reconnect
			> CDS have a:80=old b:80=old c:80=same
			< CDS -a:80 -b:80`, true},
		{"everything, state of the world", `
			set a 80; set b 80; set c 80
			> CDS
			< CDS a:80 b:80 c:80
			del a
			del b
			> CDS ack
			< CDS c:80`, false},
	} {
		t.Run(s.name, func(t *testing.T) { runTranscript(t, s.delta, s.script, 1) })
	}
}
