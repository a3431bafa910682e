package bootstrap

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Client is who is to be started, and where its server is.
type Client struct {
	Server string // HOST:PORT of the xDS server, plaintext
	// Name, Namespace and IP are those of the workload, and give the node's id.
	Name, Namespace, IP string
	Domain              string // cluster domain, such as cluster.local
	Cluster             string // ID of the cluster it runs in; "" if that is not told
	Network             string // "" if that is not told
	KubernetesNode      string // its node; needed for services with node-local endpoints
	Locality            string // region/zone/subzone
	SotW                bool   // Envoy: state of the world instead of delta
	ProxyPort           uint16 // Envoy: of its outbound HTTP proxy; 0 for the default
	AdminPort           uint16 // Envoy: of its admin page on 127.0.0.1; 0 for none
}

var (
	domainName = regexp.MustCompile(`^[a-zA-Z0-9]([-._a-zA-Z0-9]{0,251}[a-zA-Z0-9])?$`)
	label      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// check reports what cannot be used, by the name of its flag.
func (c *Client) check() error {
	host, port, err := net.SplitHostPort(c.Server)
	if err != nil || host == "" {
		return fmt.Errorf("--xds-address: %q is not HOST:PORT", c.Server)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("--xds-address: %q has no port between 1 and 65535", c.Server)
	}
	if _, err := netip.ParseAddr(host); err != nil && !domainName.MatchString(host) {
		return fmt.Errorf("--xds-address: %q is neither an IP address nor a host name", host)
	}
	if !domainName.MatchString(c.Name) {
		return fmt.Errorf("--node-name: %q cannot be the name of a node; letters, digits, '-', '.' and '_' can", c.Name)
	}
	if !label.MatchString(c.Namespace) {
		return fmt.Errorf("--namespace: %q cannot be the name of a namespace", c.Namespace)
	}
	if !domainName.MatchString(c.Domain) {
		return fmt.Errorf("--domain: %q is not a domain", c.Domain)
	}
	if _, err := netip.ParseAddr(c.IP); err != nil {
		return fmt.Errorf("--ip: %q is not an IP address", c.IP)
	}
	if strings.Count(c.Locality, "/") > 2 {
		return fmt.Errorf("--locality: %q is not REGION/ZONE/SUBZONE", c.Locality)
	}
	return nil
}

// id is that of the node, in Istio's form.
func (c *Client) id() string {
	return fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.%s", c.IP, c.Name, c.Namespace, c.Namespace, c.Domain)
}

func (c *Client) app() string { return c.Name + "." + c.Namespace }

func (c *Client) metadata() map[string]any {
	m := map[string]any{"NAMESPACE": c.Namespace}
	for key, value := range map[string]string{"CLUSTER_ID": c.Cluster, "NETWORK": c.Network, "NODE_NAME": c.KubernetesNode} {
		if value != "" {
			m[key] = value
		}
	}
	if c.ProxyPort != 0 {
		m["HTTP_PROXY_PORT"] = strconv.Itoa(int(c.ProxyPort))
	}
	return m
}

func (c *Client) locality() map[string]string {
	m := map[string]string{}
	region, rest, _ := strings.Cut(c.Locality, "/")
	zone, subzone, _ := strings.Cut(rest, "/")
	for key, value := range map[string]string{"region": region, "zone": zone, "sub_zone": subzone} {
		if value != "" {
			m[key] = value
		}
	}
	return m
}

// quote writes a value as JSON in one line, which is YAML as well.
func quote(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
