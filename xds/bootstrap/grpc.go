package bootstrap

import (
	"encoding/json"
	"fmt"
)

// GRPC returns the bootstrap of a gRPC client, as the file that GRPC_XDS_BOOTSTRAP
// names. gRPC speaks the state of the world only.
func GRPC(c Client) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.ProxyPort = 0 // it has no such proxy
	metadata := c.metadata()
	metadata["GENERATOR"] = "grpc" // who it is, for those that read no user agent
	type creds struct {
		Type string `json:"type"`
	}
	type server struct {
		URI      string   `json:"server_uri"`
		Creds    []creds  `json:"channel_creds"`
		Features []string `json:"server_features"`
	}
	type node struct {
		ID       string            `json:"id"`
		Cluster  string            `json:"cluster"`
		Locality map[string]string `json:"locality,omitempty"`
		Metadata map[string]any    `json:"metadata"`
	}
	b, err := json.MarshalIndent(struct {
		Servers []server `json:"xds_servers"`
		Node    node     `json:"node"`
	}{
		[]server{{c.Server, []creds{{"insecure"}}, []string{"xds_v3"}}},
		node{c.id(), c.app(), c.locality(), metadata},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap: %w", err)
	}
	return append(b, '\n'), nil
}
