package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tributary/xds"
	"tributary/xds/bootstrap"
)

func bootstrapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print what Envoy or gRPC starts with to get the rest from Tributary",
		Example: `  tributary bootstrap envoy --node-name cart-1 --namespace shop --cluster east > envoy.yaml
  envoy -c envoy.yaml

  tributary bootstrap grpc --namespace shop --output grpc.json
  GRPC_XDS_BOOTSTRAP=grpc.json my-client xds:///cart.shop.svc.cluster.local:80`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("there is no bootstrap for %q; there is one for envoy and for grpc", args[0])
		},
	}
	cmd.AddCommand(bootstrapOf("envoy", bootstrap.Envoy), bootstrapOf("grpc", bootstrap.GRPC))
	return cmd
}

func bootstrapOf(kind string, write func(bootstrap.Client) ([]byte, error)) *cobra.Command {
	name, _ := os.Hostname()
	c := bootstrap.Client{Server: defaultConfig().XDS.Address, Domain: defaultConfig().DomainSuffix}
	var output string
	var delta bool
	cmd := &cobra.Command{
		Use: kind, Short: "Print the bootstrap of " + map[string]string{"envoy": "an Envoy, as YAML", "grpc": "a gRPC client, as JSON"}[kind],
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&c.Server, "xds-address", c.Server, "`ADDRESS` of Tributary's xDS server")
	f.StringVar(&c.Name, "node-name", cmp.Or(strings.ToLower(name), "proxy"), "`NAME` of the client, such as that of its pod")
	f.StringVarP(&c.Namespace, "namespace", "n", "default", "`NAMESPACE` of the client: which services it is shown, and by which short names")
	f.StringVar(&c.IP, "ip", "127.0.0.1", "`IP` address of the client")
	f.StringVar(&c.Cluster, "cluster", "", "`ID` of the cluster that the client runs in")
	f.StringVar(&c.Network, "network", "", "`NETWORK` that the client is in")
	f.StringVar(&c.KubernetesNode, "kubernetes-node", "", "`NODE` that the client runs on, for services with internalTrafficPolicy: Local")
	f.StringVar(&c.Locality, "locality", "", "where the client is, as `REGION/ZONE/SUBZONE`")
	f.StringVar(&c.Domain, "domain", c.Domain, "cluster `DOMAIN` of the client's cluster")
	f.StringVar(&output, "output", "", "write to `FILE` instead of standard output")
	if kind == "envoy" {
		f.BoolVar(&delta, "delta", false, "ask for changes only (the default)")
		f.BoolVar(&c.SotW, "sotw", false, "ask for the state of the world")
		f.Uint16Var(&c.ProxyPort, "http-proxy-port", 0, fmt.Sprintf("`PORT` on 127.0.0.1 of Envoy's outbound HTTP proxy (default %d)", xds.DefaultProxyPort))
		f.Uint16Var(&c.AdminPort, "admin-port", 15000, "`PORT` on 127.0.0.1 of Envoy's admin page; 0 for none")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if delta && c.SotW {
			return errors.New("--delta and --sotw exclude each other")
		}
		b, err := write(c)
		if err != nil {
			return err
		}
		if output == "" {
			_, err = cmd.OutOrStdout().Write(b)
		} else {
			err = os.WriteFile(output, b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing the bootstrap: %w", err)
		}
		return nil
	}
	return cmd
}
