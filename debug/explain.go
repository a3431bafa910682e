package debug

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Explanation tells of every candidate endpoint of the services that are asked
// for whether clients are given it, and the rule that decided. It is of one
// snapshot, so what it says of endpoints is of one moment; clusters and clients
// are told as of now.
type Explanation struct {
	Revision uint64 `json:"revision"` // of the snapshot that clients may see
	Host     string `json:"host"`     // as asked for
	Address  string `json:"address,omitempty"`
	// Match tells how Services were found: by host, by the first labels of it, by
	// the only host that begins so, by address; "none" if there are none.
	Match string `json:"match"`
	// Conclusion is all of it in one line.
	Conclusion string             `json:"conclusion"`
	Services   []ExplainedService `json:"services"`
	DidYouMean []string           `json:"didYouMean,omitempty"`
	// Unheard lists the clusters of which nothing is known yet.
	Unheard []string `json:"unheardClusters,omitempty"`
	// Limits are what cannot be told from what is known here.
	Limits []string `json:"limits,omitempty"`
}

// ExplainedService is a service with everything that decided about it.
type ExplainedService struct {
	Service
	Conclusion string `json:"conclusion"`
	// Rules say what holds for all endpoints, such as that nobody is shown them.
	Rules       []string            `json:"rules,omitempty"`
	Definitions []Defining          `json:"definitions"` // in order of precedence
	Ports       []ExplainedPort     `json:"ports"`
	Clusters    []ExplainedCluster  `json:"clusters"`
	Endpoints   []ExplainedEndpoint `json:"endpoints"`
	Clients     []Clients           `json:"clients"` // for each port that clients balance over
	Aliases     []string            `json:"aliases,omitempty"`
	hidden      bool                // shown to no client
}

// Defining is an object that defines a service.
type Defining struct {
	Cluster  string    `json:"cluster"`
	Provider string    `json:"provider"`
	Object   string    `json:"object"`
	Version  uint64    `json:"resourceVersion,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Wins     bool      `json:"wins"`
	Why      string    `json:"why"` // it wins, or comes after the one before it
}

// ExplainedPort is a port of a service and what clients are given of it.
type ExplainedPort struct {
	ServicePort
	Resource string `json:"resource,omitempty"` // name of the endpoints in xDS; none if they are not balanced over
	Why      string `json:"why,omitempty"`      // not
}

// ExplainedCluster is how a cluster stands, and what it has of a service.
type ExplainedCluster struct {
	Cluster   string `json:"cluster"`
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Known     bool   `json:"known"`
	Defined   bool   `json:"defined"`
	Endpoints int    `json:"endpoints"`
	Served    int    `json:"served"`
	Why       string `json:"why,omitempty"` // what its state means here
}

// ExplainedEndpoint is one address in one slice.
type ExplainedEndpoint struct {
	Endpoint
	// Object is what holds the address: an EndpointSlice, or the Service that
	// selects WorkloadEntries.
	Object   string `json:"object"`
	UID      string `json:"uid,omitempty"`      // of the workload, or of the one that the slice refers to
	Workload string `json:"workload,omitempty"` // "namespace/name"
	// Conditions are those of the workload itself, not of its slice.
	Conditions []string  `json:"workloadConditions,omitempty"`
	Verdicts   []Verdict `json:"verdicts"` // for each port of the service
}

// Verdict is what decided about an endpoint on one port.
type Verdict struct {
	Port   string `json:"port"` // number and name
	Target uint16 `json:"target,omitempty"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Clients is how far the clients are that subscribe to the endpoints of a port.
type Clients struct {
	Resource string `json:"resource"`
	// Revision is the last change of the service: whoever has acknowledged a
	// snapshot as new as that has what is told here.
	Revision   uint64   `json:"revision"`
	Subscribed int      `json:"subscribed"`
	Current    int      `json:"current"`
	Behind     []Client `json:"behind,omitempty"` // the first of those that are not
	Latest     []Client `json:"latest,omitempty"` // the first of those that are
}

// Client is one client and what it acknowledged of a resource.
type Client struct {
	ID       string `json:"id"`
	Cluster  string `json:"cluster,omitempty"`
	Revision uint64 `json:"acknowledgedRevision"` // 0: nothing yet
	State    string `json:"state"`                // acknowledged, sent, not sent, refused or busy
	Failure  string `json:"failure,omitempty"`
}

// explain answers for a person, or as JSON if asked for it.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "host", "address", "namespace", "format")
	asJSON := wantsJSON(r)
	if err == nil && len(q.hosts) == 0 && !asJSON {
		text(w, http.StatusOK, []byte(explainUsage))
		return
	}
	if err == nil && len(q.hosts) != 1 {
		err = fmt.Errorf("one host is to be given: /debug/explain?host=reviews.shop, and perhaps &address=")
	}
	if format := r.URL.Query().Get("format"); err == nil && format != "" && format != "json" && format != "text" {
		err = fmt.Errorf("format is text or json, not %q", format)
	}
	if err != nil {
		if asJSON {
			fail(w, http.StatusBadRequest, err)
		} else {
			text(w, http.StatusBadRequest, []byte(line(err.Error())+"\n"))
		}
		return
	}
	done, ok := s.walk(w, r)
	if !ok {
		return
	}
	e := s.Explain(q.hosts[0], r.URL.Query().Get("address"), q.namespaces)
	done()
	if asJSON {
		writeJSON(w, r, e)
		return
	}
	var b bytes.Buffer
	e.WriteText(&b)
	text(w, http.StatusOK, b.Bytes())
}

const explainUsage = `Tells why the endpoints of a service are served, or are not.

  /debug/explain?host=reviews.shop
  /debug/explain?host=reviews.shop&address=10.1.2.3
  /debug/explain?host=reviews.shop&format=json

host is a host, its first labels, the beginning of only one, the name of an Envoy
cluster, or an address. address is that of an endpoint, or the name of its pod.
`

func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}
