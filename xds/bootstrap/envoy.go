package bootstrap

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"text/template"
)

// envoyTemplate is the bootstrap of an Envoy. Names are quoted: YAML takes an n
// or a no for something else.
var envoyTemplate = template.Must(template.New("envoy").Funcs(template.FuncMap{"quote": quote}).Parse(
	`# Envoy gets its clusters, endpoints, listeners and routes from Tributary at {{.Server}}.
node:
  id: {{quote .ID}}
  cluster: {{quote .App}}
{{- if .Locality}}
  locality: {{quote .Locality}}
{{- end}}
  metadata: {{quote .Metadata}}
{{- if .AdminPort}}
admin:
  address: {socket_address: {address: 127.0.0.1, port_value: {{.AdminPort}}}}
{{- end}}
dynamic_resources:
  ads_config:
    api_type: {{.API}}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc:
        cluster_name: tributary
        # Envoy waits up to 30 s before it tries again unless told otherwise.
        retry_policy: {retry_back_off: {base_interval: 0.5s, max_interval: 5s}}
  cds_config: {resource_api_version: V3, ads: {}}
  lds_config: {resource_api_version: V3, ads: {}}
static_resources:
  clusters:
  - name: tributary
    type: {{.Discovery}}
    connect_timeout: 5s
    load_assignment:
      cluster_name: tributary
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: {{quote .Host}}, port_value: {{.Port}}}}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config:
          http2_protocol_options:
            # so that a server that is gone without a word is noticed
            connection_keepalive: {interval: 30s, timeout: 5s}
`))

// Envoy returns the bootstrap of an Envoy as YAML.
func Envoy(c Client) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(c.Server)
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap: %w", err) // check has seen to it
	}
	discovery, api := "STATIC", "DELTA_GRPC"
	if _, err := netip.ParseAddr(host); err != nil {
		discovery = "STRICT_DNS"
	}
	if c.SotW {
		api = "GRPC"
	}
	var b bytes.Buffer
	err = envoyTemplate.Execute(&b, map[string]any{
		"Server": c.Server, "ID": c.id(), "App": c.app(), "Locality": c.locality(), "Metadata": c.metadata(), "AdminPort": c.AdminPort,
		"API": api, "Discovery": discovery, "Host": host, "Port": port,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap: %w", err)
	}
	return b.Bytes(), nil
}
