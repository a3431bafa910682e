package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"tributary/debug"
)

// Exit codes of get, beside 0: what was asked for is not there or the request
// was wrong, and nobody answers.
const (
	exitFailed      = 1
	exitUnreachable = 3
)

// exitError is an error with the exit code of the process.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }
func (e *exitError) ExitCode() int { return e.code }

// getOptions is what the flags of get say.
type getOptions struct {
	address   string
	output    string
	namespace string
	cluster   string
	state     string
	sortBy    string
	watch     bool
	now       func() time.Time
}

// outputs are the formats of get.
var outputs = []string{"table", "wide", "json", "yaml"}

func (o *getOptions) wide() bool  { return o.output == "wide" }
func (o *getOptions) table() bool { return o.output == "table" || o.output == "wide" }

// addressVariable gives the address of the server in place of --http-address.
const addressVariable = "TRIBUTARY_HTTP_ADDRESS"

func getCommand() *cobra.Command { return getCommandAt(time.Now) }

// getCommandAt makes the command with a clock, which the ages it shows are of.
func getCommandAt(now func() time.Time) *cobra.Command {
	o := &getOptions{now: now}
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Show what a running server knows",
		Example: `  tributary get clusters
  tributary get services -n shop
  tributary get endpoints reviews -o wide
  tributary get endpoints --state held
  tributary get proxies -o json
  tributary get endpoints reviews -w
  tributary get services --sort-by served`,
		Args: cobra.ArbitraryArgs, // so that a wrong one is told below
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("there is no %q to get; it is one of clusters, services, endpoints, proxies", args[0])
		},
	}
	cmd.PersistentFlags().StringVar(&o.address, "http-address", defaultAddress(), "`ADDRESS` of the server's HTTP page (or "+addressVariable+")")
	cmd.PersistentFlags().StringVarP(&o.output, "output", "o", "table", "`FORMAT`: "+strings.Join(outputs, ", "))
	cmd.PersistentFlags().StringVar(&o.sortBy, "sort-by", "", "sort by this `COLUMN` of the wide table")
	cmd.PersistentFlags().BoolVarP(&o.watch, "watch", "w", false, "after the list, show what changes, until Ctrl-C")
	complete(cmd, "output", outputs...)

	clusters := getOf(o, "clusters", "[ID...]", &clusterTable, func(c debug.Cluster, name string) bool { return c.ID == name }, "cluster")
	services := getOf(o, "services", "[NAME...]", &serviceTable, func(s debug.Service, name string) bool { return hasName(s.Host, name) }, "service", "svc")
	endpoints := getOf(o, "endpoints", "[SERVICE...]", &endpointTable, func(e debug.Endpoint, name string) bool { return hasName(e.Host, name) }, "endpoint", "ep")
	proxies := getOf(o, "proxies", "[NAME...]", &proxyTable, func(p debug.Proxy, name string) bool { return hasProxyName(p.ID, name) }, "proxy")
	endpoints.Flags().StringVar(&o.state, "state", "", "only endpoints in this `STATE`: served, held, \"not ready\", terminating, drained, shadowed or unmatched")
	complete(endpoints, "state", "served", "held", "not ready", "terminating", "drained", "shadowed", "unmatched")
	for _, c := range []*cobra.Command{services, endpoints, proxies} {
		c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "only this `NAMESPACE`")
		c.Flags().StringVar(&o.cluster, "cluster", "", "only this cluster `ID`")
		completeFrom(c, o, "namespace", namespaceNames)
		completeFrom(c, o, "cluster", clusterNames)
	}
	services.Long = "Show services, merged from all clusters. NAME is a host or its first labels:\nreviews and reviews.shop both name reviews.shop.svc.cluster.local."
	endpoints.Long = "Show the endpoints of services: each is served, or the table says why not.\nSERVICE is a host or its first labels."
	clusters.ValidArgsFunction = completeArgs(o, clusterNames)
	services.ValidArgsFunction = completeArgs(o, serviceNames)
	endpoints.ValidArgsFunction = completeArgs(o, serviceNames)
	proxies.ValidArgsFunction = completeArgs(o, proxyNames)
	cmd.AddCommand(clusters, services, endpoints, proxies)
	return cmd
}

func defaultAddress() string {
	return cmp.Or(os.Getenv(addressVariable), defaultConfig().HTTP.Address)
}

func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// getOf makes the command for one kind; is tells whether an item has a name that
// was asked for.
func getOf[T any](o *getOptions, kind, args string, table *tableOf[T], is func(item T, name string) bool, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use: kind + " " + args, Short: "Show " + kind, Aliases: aliases,
		RunE: func(cmd *cobra.Command, names []string) error {
			if !slices.Contains(outputs, o.output) {
				return fmt.Errorf("the output %q is none of %s (-o)", o.output, strings.Join(outputs, ", "))
			}
			if o.sortBy != "" {
				if err := table.sortBy(nil, o.sortBy, o.now()); err != nil {
					return err
				}
			}
			read := func(ctx context.Context) (debug.List[T], error) {
				list, err := fetch[T](ctx, o, kind, names)
				if err == nil && o.sortBy != "" {
					err = table.sortBy(list.Items, o.sortBy, o.now())
				}
				return list, err
			}
			if o.watch {
				w := &watcher[T]{options: o, kind: kind, table: table, read: read, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
				return w.run(cmd.Context())
			}
			list, err := read(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd, o, kind, names, list, table, is)
		},
	}
}

// encode writes a value as JSON or YAML, as o says.
func (o *getOptions) encode(out io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	text := b.Bytes()
	if err == nil && o.output == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func show[T any](cmd *cobra.Command, o *getOptions, kind string, names []string, list debug.List[T],
	table *tableOf[T], is func(T, string) bool) error {
	out, notes := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if !o.table() {
		if err := o.encode(out, list); err != nil {
			return err
		}
	} else if len(list.Items) > 0 {
		table.write(out, list.Items, o.wide(), o.now())
	}
	if len(list.Unheard) > 0 && kind != "clusters" {
		fmt.Fprintf(notes, "Nothing is known yet of %s: what is there is missing here.\n", printable(strings.Join(list.Unheard, ", ")))
	}
	var missing []string
	for _, name := range names {
		found := false
		for _, item := range list.Items {
			found = found || is(item, name)
		}
		if !found {
			missing = append(missing, strconv.Quote(name))
		}
	}
	switch {
	case len(missing) > 0:
		return &exitError{exitFailed, fmt.Errorf("no %s found for %s%s", kind, strings.Join(missing, ", "), o.filters())}
	case len(list.Items) == 0 && o.table():
		fmt.Fprintf(notes, "No %s%s.\n", kind, o.filters())
	}
	return nil
}

// filters tells what the flags leave out, for a message about nothing found.
func (o *getOptions) filters() string {
	var s string
	if o.namespace != "" {
		s += " in namespace " + o.namespace
	}
	if o.cluster != "" {
		s += " in cluster " + o.cluster
	}
	if o.state != "" {
		s += " in state " + o.state
	}
	return s
}

// hasName reports whether name is a host or its first labels.
func hasName(host, name string) bool { return host == name || strings.HasPrefix(host, name+".") }

// hasProxyName reports whether name is the id of a proxy or the name in it.
func hasProxyName(id, name string) bool {
	parts := strings.Split(id, "~")
	return hasName(id, name) || len(parts) == 4 && hasName(parts[2], name)
}

// pageLimit is how many items are asked for at a time.
const pageLimit = 2000

// fetch reads all pages of one kind.
func fetch[T any](ctx context.Context, o *getOptions, kind string, names []string) (debug.List[T], error) {
	query := url.Values{}
	for _, name := range names {
		query.Add("name", name)
	}
	for key, value := range map[string]string{"namespace": o.namespace, "cluster": o.cluster, "state": o.state} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if kind != "clusters" {
		query.Set("limit", strconv.Itoa(pageLimit))
	}
	var all debug.List[T]
	for {
		var page debug.List[T]
		if err := getPage(ctx, o.address, "/api/v1/"+kind+"?"+query.Encode(), &page); err != nil {
			return all, err
		}
		page.Items = append(all.Items, page.Items...)
		all = page
		if page.Continue == "" {
			all.Total = len(all.Items)
			return all, nil
		}
		query.Set("continue", page.Continue)
	}
}

var client = &http.Client{
	Timeout:   time.Minute,
	Transport: &http.Transport{Proxy: nil, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
}

func getPage(ctx context.Context, address, path string, page any) error {
	resp, base, err := open(ctx, client, address, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return &exitError{exitUnreachable, fmt.Errorf("reading the answer of %s: %w", base, err)}
	}
	if err := failureOf(resp, body, base, "application/json"); err != nil {
		return err
	}
	if err := json.Unmarshal(body, page); err != nil {
		return &exitError{exitFailed, fmt.Errorf("reading the answer of %s: %w", base, err)}
	}
	return nil
}

// addressSetting is how the address of the server is set.
const addressSetting = "--http-address or " + addressVariable

// open asks the server at an address for a path and returns the head of its
// answer.
func open(ctx context.Context, client *http.Client, address, path string) (resp *http.Response, base string, err error) {
	base = "http://" + strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	if u, err := url.Parse(base); err == nil && u.Port() == "" {
		return nil, base, fmt.Errorf("%q has no port (%s)", address, addressSetting)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return nil, base, fmt.Errorf("%q is not an address (%s): %w", address, addressSetting, err)
	}
	resp, err = client.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL, which is told anyway
		}
		if strings.Contains(err.Error(), "malformed HTTP response") { // net/http has no type for it
			return nil, base, &exitError{exitFailed, fmt.Errorf("what answers at %s is not Tributary's HTTP page, nor any HTTP server (is it the xDS address?); its address is set with %s", base, addressSetting)}
		}
		return nil, base, &exitError{exitUnreachable, fmt.Errorf("nobody answers at %s: %w\nIs \"tributary serve\" running? Another address is set with %s", base, err, addressSetting)}
	}
	return resp, base, nil
}

// failureOf returns why an answer is not what was asked for; nil if it is.
func failureOf(resp *http.Response, body []byte, base, contentType string) error {
	ok := resp.StatusCode == http.StatusOK
	if got := resp.Header.Get("Content-Type"); ok && !strings.HasPrefix(got, contentType) || !ok && !strings.HasPrefix(got, "application/json") {
		return &exitError{exitFailed, fmt.Errorf("what answers at %s is not Tributary's HTTP page (%s); its address is set with %s", base, resp.Status, addressSetting)}
	}
	if ok {
		return nil
	}
	var failure debug.Failure
	if json.Unmarshal(body, &failure) != nil || failure.Message == "" {
		failure.Message = resp.Status
	}
	return &exitError{exitFailed, fmt.Errorf("%s answers: %s", base, printable(failure.Message))}
}
