package debug

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tributary/model"
	"tributary/shards"
)

// istioService is an element of Istio's registryz; names and spelling are those
// of its model.Service.
type istioService struct {
	Attributes      istioAttributes
	Ports           []istioPort    `json:"ports,omitempty"`
	ServiceAccounts []string       `json:"serviceAccounts,omitempty"`
	CreationTime    time.Time      `json:"creationTime"`
	Hostname        string         `json:"hostname"`
	ClusterVIPs     istioAddresses `json:"clusterVIPs"`
	DefaultAddress  string         `json:"defaultAddress,omitempty"`
	Resolution      int
	MeshExternal    bool
	ResourceVersion string
}

type istioAttributes struct {
	ServiceRegistry string
	Name            string
	Namespace       string
	LabelSelectors  map[string]string
}

type istioPort struct {
	Name     string `json:"name,omitempty"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol,omitempty"`
}

type istioAddresses struct {
	Addresses map[string][]string
}

// resolutions are Istio's numbers for ours.
var resolutions = map[model.Resolution]int{model.ClientSideLB: 0, model.Passthrough: 2, model.Alias: 4}

func (s *Server) registryz(w http.ResponseWriter, r *http.Request) {
	done, ok := s.walk(w, r)
	if !ok {
		return
	}
	defer done()
	out := newParts(w, r, '[', ']')
	for svc := range s.snapshot().Services() {
		out.add("", newIstioService(svc))
	}
	out.close()
}

func newIstioService(svc *shards.Service) istioService {
	d := svc.Definition
	v := istioService{
		Attributes: istioAttributes{ServiceRegistry: string(d.Winner.Registry.Provider), Name: d.Winner.Name, Namespace: svc.Key.Namespace},
		Ports:      make([]istioPort, len(d.Ports)), CreationTime: createdAt(d.Winner), Hostname: svc.Key.Host,
		Resolution: resolutions[d.Resolution], MeshExternal: d.Winner.Registry.Provider == model.External,
		ClusterVIPs: istioAddresses{map[string][]string{}}, DefaultAddress: "0.0.0.0",
	}
	if d.Winner.Version != 0 {
		v.ResourceVersion = strconv.FormatUint(d.Winner.Version, 10)
	}
	for i, p := range d.Ports {
		v.Ports[i] = istioPort{p.Name, int(p.Number), protocolName(p.Protocol)}
	}
	for _, a := range d.Accounts {
		v.ServiceAccounts = append(v.ServiceAccounts, spiffe(svc.Key.Namespace, a))
	}
	for _, c := range d.VIPs {
		v.ClusterVIPs.Addresses[string(c.Cluster)] = addresses(c.VIPs)
	}
	if vips := d.Winner.VIPs; len(vips) > 0 {
		v.DefaultAddress = vips[0].String()
	}
	if !d.Winner.Selector.Empty() {
		v.Attributes.LabelSelectors = d.Winner.Selector.Map()
	}
	return v
}

// protocolName is Istio's name of a protocol; it has none for what it is to find
// out.
func protocolName(p model.Protocol) string {
	if p == model.Unknown {
		return "UnsupportedProtocol"
	}
	return p.String()
}

// spiffe returns the identity that Istio gives to a service account. A name that
// is an identity already, or has its namespace with it, is taken as it is.
func spiffe(namespace, account string) string {
	if account == "" || strings.Contains(account, "://") {
		return account
	}
	if ns, name, ok := strings.Cut(account, "/"); ok {
		namespace, account = ns, name
	}
	return "spiffe://cluster.local/ns/" + namespace + "/sa/" + account
}

// istioShards is the innermost value of Istio's endpointShardz.
type istioShards struct {
	Shards          map[string][]istioEndpoint
	ServiceAccounts map[string]struct{}
}

// istioEndpoint has the names of Istio's model.IstioEndpoint.
type istioEndpoint struct {
	Labels                 map[string]string
	Addresses              []string
	ServicePortName        string
	LegacyClusterPortKey   int
	ServiceAccount         string
	Network                string
	Locality               istioLocality
	EndpointPort           uint32
	LbWeight               uint32
	TLSMode                string
	Namespace              string
	WorkloadName           string
	HostName               string
	SubDomain              string
	HealthStatus           int
	SendUnhealthyEndpoints bool
	NodeName               string
}

type istioLocality struct {
	Label     string
	ClusterID string
}

// Istio's numbers of health.
const (
	istioHealthy     = 1
	istioUnhealthy   = 2
	istioTerminating = 4
)

// endpointShardz writes {host: {namespace: shards}}. Endpoints that are held
// back are not in it, as Istio has none without their pod; those not ready and
// those shadowed are.
func (s *Server) endpointShardz(w http.ResponseWriter, r *http.Request) {
	done, ok := s.walk(w, r)
	if !ok {
		return
	}
	defer done()
	out := newParts(w, r, '{', '}')
	var host string
	var namespaces map[string]istioShards
	for svc := range s.snapshot().Services() {
		if svc.Key.Host != host && namespaces != nil {
			out.add(host, namespaces)
			namespaces = nil
		}
		if namespaces == nil {
			host, namespaces = svc.Key.Host, map[string]istioShards{}
		}
		namespaces[svc.Key.Namespace] = newIstioShards(svc)
	}
	if namespaces != nil {
		out.add(host, namespaces)
	}
	out.close()
}

func newIstioShards(svc *shards.Service) istioShards {
	v := istioShards{Shards: map[string][]istioEndpoint{}, ServiceAccounts: map[string]struct{}{}}
	for _, a := range svc.Definition.Accounts {
		v.ServiceAccounts[spiffe(svc.Key.Namespace, a)] = struct{}{}
	}
	for _, port := range svc.Definition.Ports {
		for c := range svc.Candidates(port) {
			if c.Endpoint.Flags&model.EndpointMissing == 0 {
				key := c.Shard.String()
				v.Shards[key] = append(v.Shards[key], newIstioEndpoint(svc, port, &c))
			}
		}
	}
	return v
}

func newIstioEndpoint(svc *shards.Service, port model.Port, c *shards.Candidate) istioEndpoint {
	e := istioEndpoint{
		Addresses: []string{c.Endpoint.Addr.String()}, ServicePortName: port.Name, LegacyClusterPortKey: int(port.Number),
		EndpointPort: uint32(c.Port), LbWeight: c.Endpoint.Weight, TLSMode: "disabled", Namespace: svc.Key.Namespace,
		Locality: istioLocality{string(c.Slice.Where(c.Endpoint)), string(c.Shard.Cluster)}, HealthStatus: istioUnhealthy,
	}
	switch f := c.Endpoint.Flags; {
	case f.Served():
		e.HealthStatus = istioHealthy
	case f&model.EndpointReady == 0 && f&model.EndpointTerminating != 0:
		e.HealthStatus = istioTerminating
	}
	w := c.Endpoint.Workload
	if w == nil {
		return e
	}
	e.WorkloadName, e.Labels = w.Name, w.Labels.Map()
	if mode, ok := w.Labels.Get("security.istio.io/tlsMode"); ok {
		e.TLSMode = mode
	}
	if id := w.Identity; id != nil {
		e.Namespace = id.Namespace
		e.ServiceAccount = spiffe(id.Namespace, id.ServiceAccount)
	}
	if p := w.Placement; p != nil {
		e.Network, e.NodeName = p.Network, p.Node
	}
	return e
}

// parts writes a JSON array or object element by element, so that an answer of
// any size takes the memory of one element.
type parts struct {
	w      http.ResponseWriter
	out    *bufio.Writer
	pretty bool
	closer byte
	n      int
	err    error
}

func newParts(w http.ResponseWriter, r *http.Request, opener, closer byte) *parts {
	w.Header().Set("Content-Type", "application/json")
	p := &parts{w: w, out: bufio.NewWriterSize(w, 64<<10), pretty: r.URL.Query().Has("pretty"), closer: closer}
	_ = p.out.WriteByte(opener) // a bufio.Writer keeps its error until Flush
	return p
}

// add appends an element; name is its key in an object, "" in an array.
func (p *parts) add(name string, v any) {
	if p.err != nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		p.err = err
		return
	}
	if p.n++; p.n > 1 {
		_ = p.out.WriteByte(',')
	}
	if p.pretty {
		_, _ = p.out.WriteString("\n    ")
		var indented bytes.Buffer
		_ = json.Indent(&indented, b, "    ", "    ") // b is what Marshal made
		b = indented.Bytes()
	}
	if name != "" {
		key, _ := json.Marshal(name) // a string always marshals
		_, _ = p.out.Write(append(key, ':'))
		if p.pretty {
			_ = p.out.WriteByte(' ')
		}
	}
	if _, err := p.out.Write(b); err != nil {
		p.err = err
	}
	if p.n%64 == 0 {
		extend(p.w)
	}
}

func (p *parts) close() {
	if p.pretty && p.n > 0 {
		_ = p.out.WriteByte('\n')
	}
	_ = p.out.WriteByte(p.closer)
	_ = p.out.WriteByte('\n')
	if err := p.out.Flush(); p.err == nil {
		p.err = err
	}
}
