package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"tributary/debug"
)

func explainCommand() *cobra.Command {
	o := &getOptions{}
	cmd := &cobra.Command{
		Use:   "explain HOST [ADDRESS]",
		Short: "Tell why endpoints of a service are served, or are not",
		Long: `Tell of every endpoint of a service, in every cluster, whether clients are given
it, the rule that decided, and what connected clients have acknowledged of it.

HOST is a host, its first labels, the beginning of only one, the name of an Envoy
cluster such as outbound|80||reviews.shop.svc.cluster.local, or an address.
ADDRESS is an endpoint's address, with a port or not, or the name of its pod.`,
		Example: `  tributary explain reviews.shop
  tributary explain reviews.shop 10.1.2.3
  tributary explain reviews.shop:80 reviews-7d9c-x2x4z
  tributary explain 10.1.2.3 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("explain wants a HOST, and perhaps an ADDRESS, such as \"tributary explain reviews.shop 10.1.2.3\"; %d were given", len(args))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.address, "http-address", defaultAddress(), "`ADDRESS` of the server's HTTP page (or "+addressVariable+")")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text, json or yaml")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "only services of this `NAMESPACE`")
	complete(cmd, "output", "text", "json", "yaml")
	completeFrom(cmd, o, "namespace", namespaceNames)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeArgs(o, serviceNames)(cmd, args, word)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.output != "text" && o.output != "json" && o.output != "yaml" {
			return fmt.Errorf("the output %q is none of text, json and yaml (-o)", o.output)
		}
		query := url.Values{"host": {args[0]}, "format": {"json"}}
		if len(args) > 1 {
			query.Set("address", args[1])
		}
		if o.namespace != "" {
			query.Set("namespace", o.namespace)
		}
		var e debug.Explanation
		if err := getPage(cmd.Context(), o.address, "/debug/explain?"+query.Encode(), &e); err != nil {
			return err
		}
		if o.output != "text" {
			if err := o.encode(cmd.OutOrStdout(), e); err != nil {
				return err
			}
		}
		if len(e.Services) == 0 {
			if o.output != "text" {
				return &exitError{exitFailed, fmt.Errorf("%s", printable(e.Conclusion))}
			}
			var b strings.Builder
			e.WriteText(&b)
			return &exitError{exitFailed, fmt.Errorf("%s", strings.TrimSpace(b.String()))}
		}
		if o.output == "text" {
			e.WriteText(cmd.OutOrStdout())
		}
		return nil
	}
	return cmd
}
