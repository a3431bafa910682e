// Command tributary is a standalone multi-cluster service registry: it watches
// Kubernetes clusters and serves what they offer together as xDS.
//
// This package reads flags and the configuration file, builds the parts and
// runs them; it decides nothing itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(execute())
}

// execute runs the command and returns the exit code.
func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "tributary:", err)
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tributary",
		Short: "One registry for the services of many clusters, served as xDS",
		Long: `Tributary watches any number of Kubernetes clusters, joins their services and
endpoints into one registry, and serves it as xDS to Envoy and gRPC.

  tributary serve --kubeconfig FILE --cluster-id ID   on a real cluster; others join by
                                                      Secrets labelled istio/multiCluster=true
  tributary serve --fleet DIR                         on directories of manifests
  tributary get clusters                              what a running server knows
  tributary explain HOST [ADDRESS]                    why an endpoint is served, or not`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), getCommand(), explainCommand(), bootstrapCommand(), validateCommand(), configCommand(), versionCommand())
	completeWithoutPackage(root)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "tributary %s, %s %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, d := range info.Deps {
					if d.Path == "github.com/envoyproxy/go-control-plane/envoy" {
						fmt.Fprintf(cmd.OutOrStdout(), ", Envoy API %s", d.Version)
					}
				}
			}
			fmt.Fprintln(cmd.OutOrStdout())
		},
	}
}
