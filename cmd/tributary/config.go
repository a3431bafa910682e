package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/clusters"
	"tributary/clusters/kube"
	"tributary/push"
	"tributary/xds"
)

// Config is everything that can be set. The file given by --config is read
// strictly: an unknown field is an error with its line. Flags that are set win
// over the file.
type Config struct {
	// Kubeconfig of the config cluster: the file of the operator, which is
	// trusted and may use exec plugins. Empty: the cluster this process runs in.
	Kubeconfig string `yaml:"kubeconfig"`
	// ClusterID names the config cluster. Its service definitions win a merge.
	ClusterID string `yaml:"clusterID"`
	// Fleet is a directory with a directory of manifests for each cluster, used
	// in place of a config cluster.
	Fleet string `yaml:"fleet"`
	// SecretNamespace is the only namespace whose Secrets add clusters.
	SecretNamespace string `yaml:"secretNamespace"`
	// KubeconfigDir is a directory of kubeconfigs, one file for each cluster. The
	// cluster of the current context is the ID. Without Kubeconfig, and outside a
	// cluster, these are all clusters there are.
	KubeconfigDir string `yaml:"kubeconfigDir"`
	// AllowInsecureKubeconfig lets kubeconfigs from Secrets and from
	// KubeconfigDir skip the verification of the API server's certificate.
	AllowInsecureKubeconfig bool `yaml:"allowInsecureKubeconfig"`
	// SyncTimeout is how long a cluster that does not answer delays readiness.
	SyncTimeout Duration `yaml:"syncTimeout"`
	// ClusterUndoWindow is how long the endpoints of a cluster whose Secret, file
	// or directory has gone stay, in case it comes back, before they leave in
	// steps. 0 removes them at once.
	ClusterUndoWindow Duration `yaml:"clusterUndoWindow"`
	// SystemNamespace is the namespace of each cluster whose label
	// topology.istio.io/network tells the network of its pods.
	SystemNamespace string `yaml:"systemNamespace"`
	// DiscoverySelectors select namespaces by their labels, those that one of them
	// matches; objects in others are left out. Empty: all namespaces.
	DiscoverySelectors []LabelSelector `yaml:"discoverySelectors"`
	// DomainSuffix is the cluster domain of Kubernetes services.
	DomainSuffix string `yaml:"domainSuffix"`
	// DataDir is the directory that this process owns. One process at a time
	// may use it.
	DataDir string `yaml:"dataDir"`

	Liveness LivenessConfig `yaml:"liveness"`

	HTTP HTTPConfig `yaml:"http"`
	XDS  XDSConfig  `yaml:"xds"`
	Push PushConfig `yaml:"push"`
	Log  LogConfig  `yaml:"log"`
}

// LabelSelector selects by labels, as in objects of Kubernetes: all that is
// asked for has to match, and one that asks for nothing matches everything.
type LabelSelector struct {
	// MatchLabels are labels to have.
	MatchLabels map[string]string `yaml:"matchLabels,omitempty"`
	// MatchExpressions are conditions on labels.
	MatchExpressions []LabelExpression `yaml:"matchExpressions,omitempty"`
}

// LabelExpression is a condition on one label.
type LabelExpression struct {
	// Key is the name of the label.
	Key string `yaml:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string `yaml:"operator"`
	// Values are what In and NotIn compare with.
	Values []string `yaml:"values,omitempty"`
}

// LivenessConfig is how long a cluster may be silent before that is told.
type LivenessConfig struct {
	// ProbeInterval is how often each API server is asked whether it is there.
	ProbeInterval Duration `yaml:"probeInterval"`
	// ProbeTimeout is how long it may take to answer that.
	ProbeTimeout Duration `yaml:"probeTimeout"`
	// Unanswered is the time without an answer that makes a cluster suspect.
	Unanswered Duration `yaml:"unanswered"`
	// Unheard is the time without an event or bookmark of one kind that makes a
	// cluster suspect. Bookmarks come about once a minute.
	Unheard Duration `yaml:"unheard"`
	// Stale is after how long a silence of either kind makes a cluster stale.
	Stale Duration `yaml:"stale"`
	// ListDeadline is how long one page of a list may take.
	ListDeadline Duration `yaml:"listDeadline"`
	// WatchIdle is how long a watch may bring neither an event nor a bookmark
	// before the kind is listed anew.
	WatchIdle Duration `yaml:"watchIdle"`
}

// HTTPConfig is the HTTP server: probes, metrics, debug pages, the page at /.
type HTTPConfig struct {
	// Address to listen on; loopback only.
	Address string `yaml:"address"`
}

// XDSConfig is the xDS server and its bounds.
type XDSConfig struct {
	// Address to listen on in plaintext; loopback only.
	Address string `yaml:"address"`
	// MaxStreams bounds the open streams. Twice as many connections may be open.
	MaxStreams int `yaml:"maxStreams"`
	// MaxStreamsPerConnection bounds the streams of one connection; a client waits
	// with more.
	MaxStreamsPerConnection int `yaml:"maxStreamsPerConnection"`
	// StreamRate bounds the streams that begin in a second. One beyond it waits for
	// up to a second and is then refused.
	StreamRate int `yaml:"streamRate"`
	// StreamBurst is how many streams may begin at once, beyond StreamRate.
	StreamBurst int `yaml:"streamBurst"`
	// MaxNames bounds the names of one type that a stream may subscribe to.
	MaxNames int `yaml:"maxNames"`
	// MaxTypes bounds the resource types that a stream may ask for.
	MaxTypes int `yaml:"maxTypes"`
	// MaxRequestBytes bounds one request.
	MaxRequestBytes int `yaml:"maxRequestBytes"`
	// MaxResponseBytes bounds one response. A larger one is sent in parts; where the
	// protocol does not allow that (clusters and listeners of the state of the
	// world) the stream ends.
	MaxResponseBytes int `yaml:"maxResponseBytes"`
	// SendTimeout ends a stream whose client does not read.
	SendTimeout Duration `yaml:"sendTimeout"`
	// AckTimeout ends a stream whose client does not answer a response.
	AckTimeout Duration `yaml:"ackTimeout"`
	// FirstRequestTimeout ends a stream that says nothing, and a connection without
	// a stream.
	FirstRequestTimeout Duration `yaml:"firstRequestTimeout"`
	// ConnectionAge is after how long a connection is asked to move, give or take a
	// tenth.
	ConnectionAge Duration `yaml:"connectionAge"`
	// CacheBytes bounds the rendered resources that are kept.
	CacheBytes int `yaml:"cacheBytes"`
}

// PushConfig is when changes go out.
type PushConfig struct {
	// DebounceAfter is how long a change after quiet waits for more.
	DebounceAfter Duration `yaml:"debounceAfter"`
	// DebounceMax bounds how long a change waits under load.
	DebounceMax Duration `yaml:"debounceMax"`
}

// LogConfig is what is logged, and how.
type LogConfig struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is text or json.
	Format string `yaml:"format"`
}

// Duration is a time.Duration written as in Go: 2ms, 30s, 10m.
type Duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %q is not a duration such as 2ms, 30s or 10m", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML implements yaml.Marshaler.
//
//nolint:unparam // the interface has the error
func (d Duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

func defaultConfig() Config {
	l, alive := xds.DefaultLimits(), clusters.DefaultLiveness()
	return Config{
		ClusterID: "Kubernetes", SecretNamespace: "istio-system", SystemNamespace: kube.DefaultSystemNamespace, DomainSuffix: "cluster.local",
		SyncTimeout: Duration(30 * time.Second), ClusterUndoWindow: Duration(10 * time.Minute), DataDir: defaultDataDir(),
		Liveness: LivenessConfig{
			ProbeInterval: Duration(alive.ProbeInterval), ProbeTimeout: Duration(alive.ProbeTimeout), Unanswered: Duration(alive.Unanswered),
			Unheard: Duration(alive.Unheard), Stale: Duration(alive.Stale),
			ListDeadline: Duration(kube.DefaultListDeadline), WatchIdle: Duration(kube.DefaultWatchIdle),
		},
		HTTP: HTTPConfig{Address: "127.0.0.1:15014"},
		XDS: XDSConfig{
			Address: "127.0.0.1:15010", MaxStreams: l.Streams, MaxNames: l.Names, MaxRequestBytes: l.MessageBytes, MaxResponseBytes: l.ResponseBytes,
			MaxStreamsPerConnection: l.ConnectionStreams, StreamRate: l.StreamRate, StreamBurst: l.StreamBurst, MaxTypes: l.Types,
			SendTimeout: Duration(l.SendTimeout), AckTimeout: Duration(l.AckTimeout), FirstRequestTimeout: Duration(l.FirstRequestTimeout),
			ConnectionAge: Duration(l.ConnectionAge), CacheBytes: l.CacheBytes,
		},
		Push: PushConfig{DebounceAfter: Duration(push.DefaultSettle), DebounceMax: Duration(push.DefaultMax)},
		Log:  LogConfig{Level: "info", Format: "text"},
	}
}

func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/tributary"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "tributary")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "tributary-data"
	}
	return filepath.Join(home, ".local", "state", "tributary")
}

func (c *Config) limits() xds.Limits {
	l := xds.DefaultLimits()
	l.Streams, l.Names, l.MessageBytes, l.CacheBytes = c.XDS.MaxStreams, c.XDS.MaxNames, c.XDS.MaxRequestBytes, c.XDS.CacheBytes
	l.ConnectionStreams, l.StreamRate, l.StreamBurst = c.XDS.MaxStreamsPerConnection, c.XDS.StreamRate, c.XDS.StreamBurst
	l.Types, l.ResponseBytes = c.XDS.MaxTypes, c.XDS.MaxResponseBytes
	l.SendTimeout, l.AckTimeout = time.Duration(c.XDS.SendTimeout), time.Duration(c.XDS.AckTimeout)
	l.FirstRequestTimeout, l.ConnectionAge = time.Duration(c.XDS.FirstRequestTimeout), time.Duration(c.XDS.ConnectionAge)
	return l
}

func (c *Config) liveness() clusters.Liveness {
	l := &c.Liveness
	return clusters.Liveness{
		ProbeInterval: time.Duration(l.ProbeInterval), ProbeTimeout: time.Duration(l.ProbeTimeout), Unanswered: time.Duration(l.Unanswered),
		Unheard: time.Duration(l.Unheard), Stale: time.Duration(l.Stale),
	}
}

// rules returns the settings of registries.
func (c *Config) rules() (kube.Rules, error) {
	list := make([]metav1.LabelSelector, len(c.DiscoverySelectors))
	for i, s := range c.DiscoverySelectors {
		list[i].MatchLabels = s.MatchLabels
		for _, e := range s.MatchExpressions {
			list[i].MatchExpressions = append(list[i].MatchExpressions,
				metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values})
		}
	}
	discovery, err := kube.ParseSelectors(list)
	return kube.Rules{SystemNamespace: c.SystemNamespace, Discovery: discovery}, err
}

// configFlags binds the flags that the commands serve and config share, and
// returns what loads the configuration once they are parsed.
func configFlags(fs *pflag.FlagSet) func() (Config, error) {
	set := defaultConfig()
	file := fs.String("config", "", "configuration `FILE` (YAML); flags that are set win over it")
	fs.StringVar(&set.Kubeconfig, "kubeconfig", set.Kubeconfig, "kubeconfig `FILE` of the config cluster (default: the cluster this runs in)")
	fs.StringVar(&set.ClusterID, "cluster-id", set.ClusterID, "`ID` of the config cluster")
	fs.StringVar(&set.Fleet, "fleet", set.Fleet, "`DIR` with a directory of manifests for each cluster, in place of a config cluster")
	fs.StringVar(&set.SecretNamespace, "secret-namespace", set.SecretNamespace, "`NAMESPACE` whose Secrets labelled istio/multiCluster=true add clusters")
	fs.StringVar(&set.KubeconfigDir, "kubeconfig-dir", set.KubeconfigDir, "`DIR` of kubeconfigs, one file for each further cluster")
	fs.BoolVar(&set.AllowInsecureKubeconfig, "allow-insecure-kubeconfig", set.AllowInsecureKubeconfig, "let kubeconfigs from Secrets and --kubeconfig-dir skip TLS verification")
	undo := fs.Duration("cluster-undo-window", time.Duration(set.ClusterUndoWindow), "how long a cluster that is no longer wanted keeps its endpoints, before they leave in steps; 0s removes them at once")
	fs.StringVar(&set.XDS.Address, "xds-address", set.XDS.Address, "`ADDRESS` of the xDS server, plaintext, loopback only")
	fs.StringVar(&set.HTTP.Address, "http-address", set.HTTP.Address, "`ADDRESS` of the HTTP server, loopback only")
	fs.StringVar(&set.DataDir, "data-dir", set.DataDir, "`DIR` that this process owns")
	fs.StringVar(&set.Log.Level, "log-level", set.Log.Level, "`LEVEL`: debug, info, warn or error")
	return func() (Config, error) {
		c := defaultConfig()
		if *file != "" {
			if err := readConfig(*file, &c); err != nil {
				return c, err
			}
		}
		for name, copyFlag := range map[string]func(){
			"kubeconfig":                func() { c.Kubeconfig = set.Kubeconfig },
			"cluster-id":                func() { c.ClusterID = set.ClusterID },
			"fleet":                     func() { c.Fleet = set.Fleet },
			"secret-namespace":          func() { c.SecretNamespace = set.SecretNamespace },
			"kubeconfig-dir":            func() { c.KubeconfigDir = set.KubeconfigDir },
			"cluster-undo-window":       func() { c.ClusterUndoWindow = Duration(*undo) },
			"allow-insecure-kubeconfig": func() { c.AllowInsecureKubeconfig = set.AllowInsecureKubeconfig },
			"xds-address":               func() { c.XDS.Address = set.XDS.Address },
			"http-address":              func() { c.HTTP.Address = set.HTTP.Address },
			"data-dir":                  func() { c.DataDir = set.DataDir },
			"log-level":                 func() { c.Log.Level = set.Log.Level },
		} {
			if fs.Changed(name) {
				copyFlag()
			}
		}
		return c, c.validate()
	}
}

func readConfig(file string, c *Config) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		var typed *yaml.TypeError
		if errors.As(err, &typed) {
			return fmt.Errorf("reading the configuration %s: %w", file, &settingErrors{typed})
		}
		return fmt.Errorf("reading the configuration %s: %w", file, err)
	}
	var more yaml.Node
	if err := d.Decode(&more); err == nil {
		return fmt.Errorf("reading the configuration %s: line %d: it has a second document, which would not count", file, more.Line)
	}
	return nil
}

// validate reports every wrong setting at once.
func (c *Config) validate() error {
	var errs *multierror.Error
	bad := func(setting, format string, args ...any) {
		errs = multierror.Append(errs, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
	}
	if c.Fleet != "" && c.Kubeconfig != "" {
		bad("fleet", "cannot be set together with kubeconfig")
	}
	if c.ClusterID == "" {
		bad("clusterID", "must not be empty")
	}
	if c.SystemNamespace == "" {
		bad("systemNamespace", "must not be empty")
	}
	if _, err := c.rules(); err != nil {
		bad("discoverySelectors", "%v", err)
	}
	if c.DataDir == "" {
		bad("dataDir", "must not be empty")
	}
	if err := loopback(c.XDS.Address); err != nil {
		bad("xds.address", "%v", err)
	}
	if err := loopback(c.HTTP.Address); err != nil {
		bad("http.address", "%v", err)
	}
	for setting, v := range map[string]int{
		"xds.maxStreams": c.XDS.MaxStreams, "xds.maxNames": c.XDS.MaxNames, "xds.maxRequestBytes": c.XDS.MaxRequestBytes, "xds.cacheBytes": c.XDS.CacheBytes,
		"xds.maxStreamsPerConnection": c.XDS.MaxStreamsPerConnection, "xds.streamRate": c.XDS.StreamRate, "xds.streamBurst": c.XDS.StreamBurst,
		"xds.maxTypes": c.XDS.MaxTypes, "xds.maxResponseBytes": c.XDS.MaxResponseBytes,
	} {
		if v < 1 {
			bad(setting, "must be at least 1, not %d", v)
		}
	}
	for setting, v := range map[string]Duration{
		"syncTimeout": c.SyncTimeout, "xds.sendTimeout": c.XDS.SendTimeout, "xds.ackTimeout": c.XDS.AckTimeout,
		"xds.firstRequestTimeout": c.XDS.FirstRequestTimeout, "xds.connectionAge": c.XDS.ConnectionAge,
		"liveness.probeInterval": c.Liveness.ProbeInterval, "liveness.probeTimeout": c.Liveness.ProbeTimeout,
		"liveness.unanswered": c.Liveness.Unanswered, "liveness.unheard": c.Liveness.Unheard, "liveness.stale": c.Liveness.Stale,
		"liveness.listDeadline": c.Liveness.ListDeadline, "liveness.watchIdle": c.Liveness.WatchIdle,
		"push.debounceAfter": c.Push.DebounceAfter, "push.debounceMax": c.Push.DebounceMax,
	} {
		if v <= 0 {
			bad(setting, "must be longer than 0, not %v", time.Duration(v))
		}
	}
	if c.ClusterUndoWindow < 0 {
		bad("clusterUndoWindow", "must not be negative, as %v is; 0s removes clusters at once", time.Duration(c.ClusterUndoWindow))
	}
	if c.Liveness.Stale < max(c.Liveness.Unanswered, c.Liveness.Unheard) {
		bad("liveness.stale", "must not be shorter than liveness.unanswered and liveness.unheard")
	}
	if c.Push.DebounceMax < c.Push.DebounceAfter {
		bad("push.debounceMax", "must not be shorter than push.debounceAfter")
	}
	if _, err := logLevel(c.Log.Level); err != nil {
		bad("log.level", "%v", err)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		bad("log.format", "must be text or json, not %q", c.Log.Format)
	}
	if errs != nil {
		errs.ErrorFormat = listErrors
	}
	return errs.ErrorOrNil()
}

// loopback refuses an address that others could reach: neither listener has TLS
// or asks clients who they are.
func loopback(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port between 0 and 65535", address)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address; without TLS nothing else is served", address)
	}
	return nil
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Print the configuration in force, as a file that can be given to --config", Args: cobra.NoArgs,
		Long: "Print the configuration in force: the defaults, what --config sets, and the flags.\nIt is a file that can be given to --config. What the settings mean is told by\n\n  tributary config reference",
	}
	cmd.AddCommand(configReferenceCommand())
	load := configFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		e := yaml.NewEncoder(cmd.OutOrStdout())
		e.SetIndent(2)
		return e.Encode(c)
	}
	return cmd
}
