package debug

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"tributary/clusters"
	"tributary/model"
	"tributary/shards"
	"tributary/xds"
)

// Explain tells of the services that host names, of all their endpoints or of
// those that address names, why clients are given them or not.
func (s *Server) Explain(host, address string, namespaces []string) Explanation {
	snap := s.snapshot()
	a, of := parseAsked(host), parseAbout(address)
	e := Explanation{Revision: snap.Revision, Host: host, Address: of.text, Services: []ExplainedService{}, Unheard: s.unheard()}
	found, how, suggestions := find(snap, a, namespaces)
	e.Match, e.DidYouMean = how, suggestions
	if how == byAddress && of.all() {
		of = about{text: a.addr.String(), addr: a.addr, port: a.port}
		if a.port != 0 {
			of.text = net.JoinHostPort(of.text, strconv.Itoa(int(a.port)))
		}
		a.port = 0
		if !slices.ContainsFunc(found, func(svc *shards.Service) bool { return hasEndpoint(svc, of.addr) }) {
			of = about{} // it is a virtual address: all endpoints are behind it
		}
	}
	for _, svc := range found {
		if v, ok := s.explainService(snap, svc, a.port, of); ok {
			e.Services = append(e.Services, v)
		}
	}
	e.conclude(found, a, of)
	if len(e.Services) == 0 && !e.tellPorts(found, a, of) {
		e.Limits = append(e.Limits, limitsOfSlices)
		if !of.addr.IsZero() {
			e.elsewhere(snap, of.addr)
		}
	}
	return e
}

// tellPorts adds which ports there are if a port is all that is wrong with what
// was asked for, and reports whether it is.
func (e *Explanation) tellPorts(found []*shards.Service, a asked, of about) bool {
	for _, svc := range found {
		var ports []string
		switch {
		case a.port != 0 && !slices.ContainsFunc(svc.Definition.Ports, func(p model.Port) bool { return p.Number == a.port }):
			for _, p := range svc.Definition.Ports {
				ports = append(ports, portName(p))
			}
			e.Limits = append(e.Limits, shortName(svc)+" has "+portList(ports)+".")
		case of.port != 0 && hasEndpoint(svc, of.addr):
			e.Limits = append(e.Limits, shortName(svc)+" has "+of.addr.String()+" on "+portList(targets(svc, of.addr))+".")
		default:
			return false
		}
	}
	return len(found) > 0
}

// targets returns the ports of the slices that hold an address.
func targets(svc *shards.Service, addr model.Addr) (list []string) {
	for _, shard := range svc.Shards {
		for _, slice := range shard.Slices {
			if !slices.ContainsFunc(slice.Endpoints, func(e model.Endpoint) bool { return e.Addr == addr }) {
				continue
			}
			for _, p := range slice.Ports {
				name := strings.TrimSuffix(fmt.Sprintf("%d %s", p.Number, p.Name), " ")
				if !slices.Contains(list, name) {
					list = append(list, name)
				}
			}
		}
	}
	return list
}

func portList(ports []string) string {
	if len(ports) == 0 {
		return "no ports"
	}
	if len(ports) == 1 {
		return "port " + ports[0]
	}
	return "ports " + strings.Join(ports, ", ")
}

const limitsOfSlices = "An EndpointSlice in a cluster that has no Service of its name is not used, and not known here: only the cluster itself can show it."

// conclude says in one line what was found.
func (e *Explanation) conclude(found []*shards.Service, a asked, of about) {
	in := ""
	if len(e.Unheard) > 0 {
		in = "; nothing is known yet of " + strings.Join(e.Unheard, ", ")
	}
	switch {
	case len(found) == 0 && e.Match == byNothing && len(e.DidYouMean) > 1 && strings.HasPrefix(e.DidYouMean[0], a.host):
		e.Conclusion = fmt.Sprintf("%q is the beginning of several services", a.host)
	case len(found) == 0 && !a.addr.IsZero():
		e.Conclusion = fmt.Sprintf("no service of a cluster that was heard has the address %s", a.addr) + in
	case len(found) == 0:
		e.Conclusion = fmt.Sprintf("no cluster that was heard has a service %q", a.host) + in
	case len(e.Services) == 0 && a.port != 0 && !slices.ContainsFunc(found, func(s *shards.Service) bool {
		return slices.ContainsFunc(s.Definition.Ports, func(p model.Port) bool { return p.Number == a.port })
	}):
		e.Conclusion = fmt.Sprintf("%s has no port %d", found[0].Key.Host, a.port)
	case len(e.Services) == 0 && !of.all():
		e.Conclusion = fmt.Sprintf("%s has no endpoint %s in any cluster that was heard", found[0].Key.Host, of.text) + in
	case len(e.Services) == 1:
		e.Conclusion = e.Services[0].Host + ": " + e.Services[0].Conclusion
	default:
		e.Conclusion = fmt.Sprintf("%d services match %q by %s", len(e.Services), a.host, e.Match)
	}
}

// elsewhere adds which other services have an address that was asked for.
func (e *Explanation) elsewhere(snap *shards.Snapshot, addr model.Addr) {
	var names []string
	for svc := range snap.Services() {
		if hasAddress(svc, addr) {
			if len(names) == maxSuggestions {
				names = append(names, "others")
				break
			}
			names = append(names, shortName(svc))
		}
	}
	if len(names) > 0 {
		e.Limits = append(e.Limits, addr.String()+" is an address of "+strings.Join(names, ", ")+".")
	}
}

// explainService explains one service; ok is false if it has nothing of what is
// asked for.
func (s *Server) explainService(snap *shards.Snapshot, svc *shards.Service, port uint16, of about) (v ExplainedService, ok bool) {
	d := svc.Definition
	v = ExplainedService{Service: newService(svc), Endpoints: []ExplainedEndpoint{}, Clients: []Clients{}, Ports: []ExplainedPort{}}
	v.Definitions = s.definitions(d)
	for _, alias := range snap.Aliases(svc.Key.Host) {
		v.Aliases = append(v.Aliases, alias.Key.Host)
	}
	var ports []model.Port
	for _, p := range d.Ports {
		if port == 0 || p.Number == port {
			ports = append(ports, p)
			v.Ports = append(v.Ports, explainPort(d, p))
		}
	}
	if port != 0 && len(ports) == 0 {
		return v, false
	}
	v.Rules = rules(snap, svc)
	v.hidden = d.Visibility() == model.Nowhere
	v.Endpoints = s.explainEndpoints(svc, ports, v.Ports, of)
	if len(v.Endpoints) == 0 && !of.all() {
		return v, false
	}
	v.Clusters = s.explainClusters(svc)
	v.Clients = s.clients(svc, v.Ports)
	v.Conclusion = v.conclude(of)
	return v, true
}

// definitions lists what defines a service, with the rule that orders it: the
// one of the merge.
func (s *Server) definitions(d *model.Definition) []Defining {
	list := make([]Defining, 0, len(d.Sources))
	for i, x := range d.Sources {
		v := Defining{
			Cluster: string(x.Registry.Cluster), Provider: string(x.Registry.Provider), Object: objectKind(x.Registry.Provider) + " " + d.Key.Namespace + "/" + x.Name,
			Version: x.Version, Created: createdAt(x), Wins: x == d.Winner,
		}
		switch {
		case len(d.Sources) == 1:
			v.Why = "it is the only one"
		case i+1 < len(d.Sources) && v.Wins:
			v.Why = s.before(x, d.Sources[i+1])
		case i > 0:
			v.Why = "after " + d.Sources[i-1].Registry.String() + ": " + s.before(d.Sources[i-1], x)
		}
		list = append(list, v)
	}
	return list
}

func objectKind(p model.Provider) string {
	if p == model.Kubernetes {
		return "Service"
	}
	return "ServiceEntry"
}

// before tells why a comes before b.
func (s *Server) before(a, b *model.Service) string {
	config := s.sources.ConfigCluster
	switch {
	case a.Registry.Provider != b.Registry.Provider:
		return "a Kubernetes Service comes before others"
	case a.Registry.Cluster == config && b.Registry.Cluster != config:
		return string(config) + " is the config cluster"
	case a.Created != b.Created:
		return "the older one comes first"
	}
	age := "of the same age"
	if a.Created == 0 {
		age = "none tells when it was created"
	}
	if a.Registry.Cluster != b.Registry.Cluster {
		return age + ", the first by cluster"
	}
	return age + ", the first by name"
}

// The state of an endpoint whose clients do not balance over it.
const stateNotBalanced = "not balanced"

func explainPort(d *model.Definition, p model.Port) ExplainedPort {
	v := ExplainedPort{ServicePort: ServicePort{Name: p.Name, Port: p.Number, Protocol: p.Protocol.String(), TargetPort: p.TargetPort}}
	switch {
	case xds.Router.Balances(d, p):
		v.Resource = xds.ClusterName(p.Number, d.Key.Host)
	case p.Protocol == model.UDP || p.Protocol == model.SCTP:
		v.Why = "clients do not balance over " + p.Protocol.String()
	case d.Resolution == model.Alias:
		v.Why = "the service is another name"
	default:
		v.Why = "clients do not balance over it"
	}
	return v
}

// rules says what holds for a service as a whole.
func rules(snap *shards.Snapshot, svc *shards.Service) (list []string) {
	d := svc.Definition
	if shown := d.Visibility(); shown == model.Nowhere {
		list = append(list, "it is shown to no client (exportTo)")
	} else if shown != model.Everywhere {
		list = append(list, "it is shown to clients "+shown.String()+" only (exportTo)")
	}
	if d.Resolution == model.Passthrough {
		list = append(list, "it is headless: sidecars connect to the address that was asked for, gateways and gRPC clients balance over its endpoints")
	}
	if d.NodeLocal() {
		list = append(list, "each client is given the endpoints on its own node only (internalTrafficPolicy: Local)")
	}
	if d.AliasOf() != "" {
		list = append(list, "it is another name of "+d.AliasOf())
	}
	n := 0
	for range snap.Host(svc.Key.Host) {
		n++
	}
	if n > 1 {
		list = append(list, fmt.Sprintf("%d namespaces have this host: a client is given the one of its own namespace, then a Kubernetes Service, then the oldest", n))
	}
	return list
}

// explainEndpoints judges every endpoint on every port.
func (s *Server) explainEndpoints(svc *shards.Service, ports []model.Port, given []ExplainedPort, of about) []ExplainedEndpoint {
	type judged struct {
		Verdict
		winner *shards.Candidate
	}
	byRow := map[*model.Endpoint][]judged{}
	for i, port := range ports {
		served := map[shards.Place]shards.Candidate{}
		candidates := slices.Collect(svc.Candidates(port))
		for _, c := range candidates {
			if c.Served() {
				served[c.Place()] = c
			}
		}
		for _, c := range candidates {
			var winner *shards.Candidate
			if c.Shadowed {
				w := served[c.Place()]
				winner = &w
			}
			v := judge(&c, winner)
			if given[i].Resource == "" {
				v = verdict{state: stateNotBalanced, reason: given[i].Why}
			}
			if c.Endpoint.Flags&model.EndpointMoving != 0 && v.state == stateServed && s.sources.MoveHold > 0 {
				v.reason += fmt.Sprintf("; it stays for at most %v", s.sources.MoveHold)
			}
			byRow[c.Endpoint] = append(byRow[c.Endpoint], judged{Verdict{portName(port), c.Port, v.state, v.reason}, v.winner})
		}
	}
	list := []ExplainedEndpoint{}
	for _, shard := range svc.Shards {
		for _, slice := range shard.Slices {
			for i := range slice.Endpoints {
				row := &slice.Endpoints[i]
				var verdicts []Verdict
				o := outcome{shard: shard.Key, slice: slice, endpoint: row, verdict: verdict{state: stateUnmatched, reason: noSuchPort(ports, slice)}}
				for _, port := range ports {
					k := slices.IndexFunc(byRow[row], func(j judged) bool { return j.Port == portName(port) })
					if k < 0 {
						verdicts = append(verdicts, Verdict{Port: portName(port), State: stateUnmatched, Reason: noSuchPort([]model.Port{port}, slice)})
						continue
					}
					j := byRow[row][k]
					verdicts = append(verdicts, j.Verdict)
					o.ports = append(o.ports, EndpointPort{Name: port.Name, Port: port.Number, Target: j.Target})
					if o.state == stateUnmatched || j.State == stateServed && o.state != stateServed {
						o.verdict = verdict{j.State, j.Reason, j.winner}
					}
				}
				if of.is(row, verdicts) {
					list = append(list, explainEndpoint(svc.Key, &o, verdicts))
				}
			}
		}
	}
	return list
}

func portName(p model.Port) string {
	if p.Name == "" {
		return strconv.Itoa(int(p.Number))
	}
	return strconv.Itoa(int(p.Number)) + " " + p.Name
}

func noSuchPort(ports []model.Port, s *model.Slice) string {
	if len(ports) == 0 {
		return "the service has no ports"
	}
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = strconv.Quote(p.Name)
	}
	has := "none"
	if len(s.Ports) > 0 {
		has = strings.Trim(portNames(s), " ()")
	}
	return "its slice has no port named " + strings.Join(names, " or ") + "; it has " + has
}

func explainEndpoint(key model.ServiceKey, o *outcome, verdicts []Verdict) ExplainedEndpoint {
	v := ExplainedEndpoint{Endpoint: newEndpoint(key, o), Verdicts: verdicts, Object: "EndpointSlice " + o.slice.Object.String()}
	if v.Verdicts == nil {
		v.Verdicts = []Verdict{}
	}
	w := o.endpoint.Workload
	if w == nil {
		return v
	}
	if w.UID != (model.UID{}) {
		v.UID = uidText(w.UID)
	}
	namespace := o.slice.Object.Namespace
	if w.Identity != nil {
		namespace = w.Identity.Namespace
		if w.Identity.Kind == model.WorkloadEntry {
			v.Object = "Service " + o.slice.Object.String()
		}
	}
	v.Workload = namespace + "/" + w.Name
	for _, c := range []struct {
		state model.WorkloadState
		text  string
	}{{model.Ready, "ready"}, {model.Terminating, "terminating"}, {model.Finished, "finished"}, {model.HostNetwork, "host network"}} {
		if w.State&c.state != 0 {
			v.Conditions = append(v.Conditions, c.text)
		}
	}
	if o.endpoint.Flags&model.EndpointMissing == 0 && w.State&model.Ready == 0 {
		v.Conditions = append([]string{"not ready"}, v.Conditions...)
	}
	return v
}

// uidText writes a uid as Kubernetes does.
func uidText(u model.UID) string {
	t := hex.EncodeToString(u[:])
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}

// explainClusters tells of every cluster what it has of a service, and of those
// that have nothing, why.
func (s *Server) explainClusters(svc *shards.Service) []ExplainedCluster {
	rows := map[model.ClusterID]clusterTally{}
	for _, row := range perCluster(svc) {
		rows[row.cluster] = row
	}
	list := []ExplainedCluster{}
	add := func(id model.ClusterID, state, reason string, known bool, why string) {
		row := rows[id]
		delete(rows, id)
		c := ExplainedCluster{
			Cluster: string(id), State: state, Reason: reason, Known: known, Defined: row.Services > 0,
			Endpoints: row.Endpoints, Served: row.Served, Why: why,
		}
		if why == "" && known && !c.Defined {
			c.Why = "it has no such Service, and without one its slices are not used"
			if c.Endpoints > 0 {
				c.Why = "it has no such Service; its endpoints are selected by the Service of another cluster"
			}
		}
		list = append(list, c)
	}
	seen := map[model.ClusterID]bool{}
	for _, c := range s.sources.Clusters() {
		if c.Epoch == 0 && c.State.Refused() || seen[c.ID] {
			continue // it was never followed, or its ID belongs to the one before
		}
		seen[c.ID] = true
		add(c.ID, c.State.String(), c.Reason, c.Known, s.meaning(&c))
	}
	for id := range rows {
		add(id, "unknown", "", true, "it is not among the clusters any more")
	}
	slices.SortFunc(list, func(a, b ExplainedCluster) int { return strings.Compare(a.Cluster, b.Cluster) })
	return list
}

// meaning tells what the state of a cluster means for its endpoints; "" of one
// that is as it should be.
func (s *Server) meaning(c *clusters.Status) string {
	switch {
	case !c.Known:
		return "not heard in full yet: what it has is missing here"
	case c.Removal != nil && c.Served >= 100:
		return fmt.Sprintf("on its way out: all of it is still served as it was, the last leave in %s", Age(c.Removal.Ends.Sub(s.now())))
	case c.Removal != nil && c.Served > 0:
		return fmt.Sprintf("on its way out: %d %% of its endpoints are served, the last leave in %s", c.Served, Age(c.Removal.Ends.Sub(s.now())))
	case c.Removal != nil || c.State == clusters.Removed:
		return "on its way out"
	case c.State != clusters.Synced:
		return "not heard for a while: what it has is as it was heard last"
	}
	return ""
}

// maxClients bounds the clients that are listed for a port.
const maxClients = 50

// clients tells how far the clients are that want the endpoints of a service.
func (s *Server) clients(svc *shards.Service, ports []ExplainedPort) []Clients {
	list := []Clients{}
	var names []string
	for _, p := range ports {
		if p.Resource != "" && !slices.Contains(names, p.Resource) {
			names = append(names, p.Resource)
			list = append(list, Clients{Resource: p.Resource, Revision: svc.Revision})
		}
	}
	if len(names) == 0 || s.sources.Holders == nil {
		return list
	}
	clusterOf := map[string]string{}
	for _, p := range s.sources.Proxies() {
		clusterOf[p.ID] = string(p.Cluster)
	}
	for _, h := range s.sources.Holders(xds.EndpointType, names) {
		c := Client{ID: h.Proxy, Cluster: clusterOf[h.Proxy], Revision: h.Shown, State: "acknowledged", Failure: h.Failure}
		switch {
		case h.Busy:
			c.State = "busy"
		case h.Failure != "":
			c.State = "refused"
		case h.Open:
			c.State = "sent"
		case h.Shown < svc.Revision:
			c.State = "not sent"
		}
		for i := range list {
			k := &list[i]
			switch {
			case h.Busy: // perhaps it does not even subscribe
				if len(k.Behind) < maxClients {
					k.Behind = append(k.Behind, c)
				}
			case k.Resource != h.Name:
			case c.State == "acknowledged":
				k.Subscribed++
				k.Current++
				if len(k.Latest) < maxClients {
					k.Latest = append(k.Latest, c)
				}
			default:
				k.Subscribed++
				if len(k.Behind) < maxClients {
					k.Behind = append(k.Behind, c)
				}
			}
		}
	}
	return list
}

// stateOrder is the order in which a conclusion tells the states that are not
// served.
var stateOrder = []string{stateHeld, stateNotReady, stateTerminating, stateDrained, stateShadowed, stateUnmatched, stateNotBalanced}

// conclude counts the endpoints by what became of them.
func (v *ExplainedService) conclude(of about) string {
	if v.AliasOf != "" {
		return "it is another name of " + v.AliasOf + ", and has no endpoints of its own"
	}
	if len(v.Endpoints) == 0 {
		return "it has no endpoints in any cluster that was heard"
	}
	nobody := ""
	if v.hidden {
		nobody = "; but the service is shown to no client (exportTo)"
	}
	type group struct{ state, reason string }
	counts := map[group]int{}
	served, partly := 0, 0
	for _, e := range v.Endpoints {
		if e.State != stateServed {
			counts[group{e.State, e.short()}]++
			continue
		}
		served++
		if slices.ContainsFunc(e.Verdicts, func(d Verdict) bool { return d.State != stateServed }) {
			partly++
		}
	}
	var parts []string
	parts = append(parts, fmt.Sprintf("%d of %s served", served, plural(len(v.Endpoints), "endpoint")))
	if e := &v.Endpoints[0]; !of.all() && len(v.Endpoints) == 1 {
		return of.text + " is " + e.State + e.onPorts() + nobody
	}
	if partly > 0 && len(v.Ports) > 1 {
		parts = append(parts, fmt.Sprintf("%d of these on some ports only", partly))
	}
	groups := make([]group, 0, len(counts))
	for g := range counts {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(slices.Index(stateOrder, a.state), slices.Index(stateOrder, b.state)), strings.Compare(a.reason, b.reason))
	})
	for _, g := range groups {
		part := fmt.Sprintf("%d %s", counts[g], g.state)
		if g.reason != "" {
			part += ": " + g.reason
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ") + nobody
}

// onPorts tells on which ports an endpoint is served, if not on all, or else why
// it is not.
func (e *ExplainedEndpoint) onPorts() string {
	if e.State != stateServed {
		if e.Reason == "" {
			return ""
		}
		return ": " + e.Reason
	}
	var on, not []string
	for _, v := range e.Verdicts {
		if v.State == stateServed {
			on = append(on, v.Port)
		} else {
			not = append(not, v.Port+" ("+v.State+")")
		}
	}
	if len(not) == 0 {
		return ""
	}
	return " on " + portList(on) + ", not on " + portList(not)
}

// short is the reason in a few words, for a line that tells of many.
func (e *ExplainedEndpoint) short() string {
	switch {
	case e.State == stateUnmatched:
		return "port names differ"
	case e.State == stateHeld && strings.Contains(e.Reason, "uid"):
		return "pod has another uid"
	case e.State == stateHeld && strings.Contains(e.Reason, "ended"):
		return "pod has ended"
	case e.State == stateHeld:
		return "pod not seen"
	case e.State == stateNotBalanced:
		return e.Reason
	}
	return ""
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word + " is"
	}
	return strconv.Itoa(n) + " " + word + "s are"
}
