package clusters

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"tributary/model"
)

// AllowInsecureSetting is the setting that lets kubeconfigs of secrets skip the
// verification of certificates, or use plain HTTP.
const AllowInsecureSetting = "--allow-insecure-kubeconfig"

// maxKubeconfig is the size above which a kubeconfig is not read. API servers
// keep secrets below it.
const maxKubeconfig = 1 << 20

// parseKubeconfig reads a kubeconfig that came from a secret or a file. Whoever
// can write one must not thereby run programs, read files or use the network as
// this process: what would allow that is refused, and what is left is copied
// field by field, so that a field that a later release of client-go adds does
// not slip through. Errors never hold a part of a value.
func parseKubeconfig(data []byte, allowInsecure bool) (*rest.Config, error) {
	config, err := load(data)
	if err != nil {
		return nil, err
	}
	if config.CurrentContext == "" {
		return nil, errors.New("current-context is not set")
	}
	return accept(config, config.CurrentContext, allowInsecure)
}

// parseKubeconfigFile is parseKubeconfig for a file that also has to tell whose
// kubeconfig it is. As in Istio, that is the cluster of the current context,
// else of the first context, else the first cluster. The same context is used to
// reach it. The ID is returned with most errors too; "" if there is none.
func parseKubeconfigFile(data []byte, allowInsecure bool) (model.ClusterID, *rest.Config, error) {
	config, err := load(data)
	if err != nil {
		return "", nil, err
	}
	// A map has no first one, so the lists are read once more.
	var lists struct {
		Contexts, Clusters []struct{ Name string }
	}
	if err := yaml.Unmarshal(data, &lists); err != nil {
		return "", nil, fmt.Errorf("it does not parse as a kubeconfig%s", lineOf(err))
	}
	context, name := config.CurrentContext, ""
	if context == "" && len(lists.Contexts) > 0 {
		context = lists.Contexts[0].Name
	}
	switch c := config.Contexts[context]; {
	case c != nil:
		name = c.Cluster
	case len(lists.Clusters) > 0:
		name = lists.Clusters[0].Name
	}
	if !fileClusterID.MatchString(name) {
		return "", nil, errors.New("no cluster is named in it, or with characters that an ID cannot have")
	}
	if context == "" {
		return model.ClusterID(name), nil, errors.New("it has no context")
	}
	accepted, err := accept(config, context, allowInsecure)
	return model.ClusterID(name), accepted, err
}

// fileClusterID is what a kubeconfig may call its cluster. Clouds like names
// with slashes and colons.
var fileClusterID = regexp.MustCompile(`^[a-zA-Z0-9][-._:/@a-zA-Z0-9]{0,252}$`)

func load(data []byte) (*api.Config, error) {
	if len(data) > maxKubeconfig {
		return nil, fmt.Errorf("it is larger than %d KiB", maxKubeconfig>>10)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("it does not parse as a kubeconfig%s", lineOf(err))
	}
	return config, nil
}

// accept makes a configuration of one context, or tells why not.
func accept(config *api.Config, name string, allowInsecure bool) (*rest.Config, error) {
	context := config.Contexts[name]
	if context == nil {
		return nil, errors.New("current-context names a context that is not there")
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil {
		return nil, errors.New("the context names a cluster that is not there")
	}
	user := config.AuthInfos[context.AuthInfo]
	if user == nil && context.AuthInfo != "" {
		return nil, errors.New("the context names a user that is not there")
	}
	if user == nil {
		user = &api.AuthInfo{}
	}
	if err := refuse(cluster, user, allowInsecure); err != nil {
		return nil, err
	}
	server, err := serverOf(cluster.Server, allowInsecure)
	if err != nil {
		return nil, err
	}
	out := &rest.Config{
		Host:     server,
		Username: user.Username, Password: user.Password, BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName, CAData: cluster.CertificateAuthorityData,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
		DisableCompression: cluster.DisableCompression,
	}
	return out, checkCredentials(out)
}

// refuse names the first field that would let a kubeconfig do more than reach
// its API server.
func refuse(cluster *api.Cluster, user *api.AuthInfo, allowInsecure bool) error {
	for _, f := range []struct {
		set  bool
		name string
		why  string
	}{
		{user.Exec != nil, "exec", "it would run a program"},
		{user.AuthProvider != nil, "auth-provider", "it would run a plugin"},
		{user.TokenFile != "", "tokenFile", "it would read a file; use token"},
		{user.ClientCertificate != "", "client-certificate", "it would read a file; use client-certificate-data"},
		{user.ClientKey != "", "client-key", "it would read a file; use client-key-data"},
		{cluster.CertificateAuthority != "", "certificate-authority", "it would read a file; use certificate-authority-data"},
		{cluster.ProxyURL != "", "proxy-url", "it would send the credential by way of another host"},
		{user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0,
			"as (impersonation)", "it would act as somebody else"},
	} {
		if f.set {
			return fmt.Errorf("%s is not allowed in the kubeconfig of a remote cluster: %s", f.name, f.why)
		}
	}
	if cluster.InsecureSkipTLSVerify && !allowInsecure {
		return fmt.Errorf("insecure-skip-tls-verify is not allowed without %s", AllowInsecureSetting)
	}
	return nil
}

// serverOf checks the address of the API server and returns it.
func serverOf(server string, allowInsecure bool) (string, error) {
	if server == "" {
		return "", errors.New("the cluster has no server")
	}
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return "", errors.New("server is not a URL of the form https://HOST:PORT")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("server holds more than scheme, host, port and path")
	case u.Scheme == "http" && !allowInsecure:
		return "", fmt.Errorf("server is plain HTTP, which is not allowed without %s", AllowInsecureSetting)
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("server is not a URL of the form https://HOST:PORT")
	}
	return u.String(), nil
}

// checkCredentials finds what could never work, while there is still a secret
// to name.
func checkCredentials(c *rest.Config) error {
	if strings.ContainsFunc(c.BearerToken, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("token holds white space or a control character")
	}
	if strings.ContainsFunc(c.Username+c.Password+c.ServerName, unicode.IsControl) {
		return errors.New("username, password or tls-server-name holds a control character")
	}
	if c.BearerToken != "" && c.Username != "" {
		return errors.New("it has both a token and a username")
	}
	if len(c.CAData) > 0 {
		if c.Insecure {
			return errors.New("certificate-authority-data makes no sense with insecure-skip-tls-verify")
		}
		if !x509.NewCertPool().AppendCertsFromPEM(c.CAData) {
			return errors.New("certificate-authority-data holds no PEM certificate")
		}
	}
	if (len(c.CertData) > 0) != (len(c.KeyData) > 0) {
		return errors.New("client-certificate-data and client-key-data go together, one is missing")
	}
	if len(c.CertData) > 0 {
		// The reason could quote the key, so it is left out.
		if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil {
			return errors.New("client-certificate-data and client-key-data are not a PEM certificate and its key")
		}
	}
	return nil
}

var lineNumber = regexp.MustCompile(`line \d+`)

// lineOf returns where a parser failed. The rest of its text may quote what it
// could not read.
func lineOf(err error) string {
	if m := lineNumber.FindString(err.Error()); m != "" {
		return " (" + m + ")"
	}
	return ""
}

// redact takes the credential of a configuration out of a text that the other
// side may have written: an API server can repeat in an error what it was sent.
func redact(s string, c *rest.Config) string {
	if c == nil {
		return s
	}
	basic := ""
	if c.Password != "" {
		basic = base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
	}
	for _, secret := range []string{c.BearerToken, basic, c.Password} {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[credential]")
		}
	}
	return s
}

// LoadKubeconfig reads the operator's own kubeconfig, which is trusted: it may
// run exec plugins and name files. An empty path means the service account of
// the pod that this process runs in.
func LoadKubeconfig(path string) (*rest.Config, error) {
	if path == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no --kubeconfig is given and this is no pod of a cluster: %w", err)
		}
		return c, nil
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{})
	c, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", path, err)
	}
	return c, nil
}
