package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"tributary/test/bench/dataset"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("the arguments are ADDRESS and ID=KUBECONFIG of each cluster")
	}
	var clusters []dataset.Cluster
	for _, arg := range args[1:] {
		id, file, _ := strings.Cut(arg, "=")
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return fmt.Errorf("reading the kubeconfig of cluster %s: %w", id, err)
		}
		config.ContentType = "application/vnd.kubernetes.protobuf"
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("connecting to cluster %s: %w", id, err)
		}
		clusters = append(clusters, dataset.Cluster{ID: id, Client: client})
	}
	s, err := watch(ctx, clusters)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0]) // not before everything is there
	if err != nil {
		return fmt.Errorf("listening on %s: %w", args[0], err)
	}
	return s.serve(ctx, l)
}
