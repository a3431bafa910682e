package clusters

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secretToken = "s3cr3t-t0ken"

// kubeconfig writes one with the given lines for its cluster and its user.
func kubeconfig(cluster, user string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\n"+
		"clusters: [{name: b, cluster: {%s}}]\nusers: [{name: c, user: {%s}}]\n", cluster, user)
}

func goodKubeconfig(token string) string {
	return kubeconfig("server: 'https://example.com:6443'", "token: '"+token+"'")
}

func keyPair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, b []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("EC PRIVATE KEY", keyDER)
}

func TestParseKubeconfig(t *testing.T) {
	cert, key := keyPair(t)
	_, otherKey := keyPair(t)
	const server = "server: 'https://example.com:6443'"
	token := "token: " + secretToken
	for _, c := range []struct {
		name, in string
		insecure bool
		want     string // part of the error; "" for none
	}{
		{"token", kubeconfig(server, token), false, ""},
		{"path in server", kubeconfig("server: 'https://example.com/k8s/clusters/c-1'", token), false, ""},
		{"nobody", kubeconfig(server, ""), false, ""},
		{"basic", kubeconfig(server, "username: u, password: "+secretToken), false, ""},
		{"certificates", kubeconfig(server+", certificate-authority-data: "+cert, "client-certificate-data: "+cert+", client-key-data: "+key), false, ""},
		{"server name", kubeconfig(server+", tls-server-name: other", token), false, ""},
		{"insecure allowed", kubeconfig(server+", insecure-skip-tls-verify: true", token), true, ""},
		{"http allowed", kubeconfig("server: 'http://example.com'", token), true, ""},

		{"empty", "", false, "current-context"},
		{"not YAML", "a: [" + secretToken, false, "does not parse as a kubeconfig (line 1)"},
		{"a string", secretToken, false, "does not parse"},
		{"wrong type", "apiVersion: v1\nkind: Config\nusers: " + secretToken, false, "does not parse"},
		{"wrong kind", "apiVersion: v1\nkind: Secret\ndata: {x: " + secretToken + "}", false, "does not parse"},
		{"no context", strings.Replace(goodKubeconfig(secretToken), "current-context: a", "", 1), false, "current-context is not set"},
		{"missing context", strings.Replace(goodKubeconfig(secretToken), "current-context: a", "current-context: z", 1), false, "a context that is not there"},
		{"missing cluster", strings.Replace(goodKubeconfig(secretToken), "cluster: b,", "cluster: z,", 1), false, "a cluster that is not there"},
		{"missing user", strings.Replace(goodKubeconfig(secretToken), "user: c}", "user: z}", 1), false, "a user that is not there"},

		{"exec", kubeconfig(server, token+", exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}"), true, "exec is not allowed"},
		{"auth provider", kubeconfig(server, token+", auth-provider: {name: oidc}"), true, "auth-provider is not allowed"},
		{"token file", kubeconfig(server, token+", tokenFile: /etc/shadow"), true, "tokenFile is not allowed"},
		{"certificate file", kubeconfig(server, "client-certificate: /x"), true, "client-certificate is not allowed"},
		{"key file", kubeconfig(server, "client-key: /x"), true, "client-key is not allowed"},
		{"CA file", kubeconfig(server+", certificate-authority: /x", token), true, "certificate-authority is not allowed"},
		{"proxy", kubeconfig(server+", proxy-url: 'http://evil'", token), true, "proxy-url is not allowed"},
		{"act as", kubeconfig(server, token+", as: admin"), true, "as (impersonation) is not allowed"},
		{"act as groups", kubeconfig(server, token+", as-groups: [admin]"), true, "as (impersonation) is not allowed"},
		{"act as uid", kubeconfig(server, token+", as-uid: u"), true, "as (impersonation) is not allowed"},
		{"act as extra", kubeconfig(server, token+", as-user-extra: {a: [b]}"), true, "as (impersonation) is not allowed"},
		{"insecure", kubeconfig(server+", insecure-skip-tls-verify: true", token), false, AllowInsecureSetting},
		{"http", kubeconfig("server: 'http://example.com'", token), false, AllowInsecureSetting},

		{"no server", kubeconfig("", token), false, "no server"},
		{"no scheme", kubeconfig("server: 'example.com:6443'", token), true, "https://HOST:PORT"},
		{"other scheme", kubeconfig("server: 'file:///etc/passwd'", token), true, "https://HOST:PORT"},
		{"unix", kubeconfig("server: 'unix://x/y'", token), true, "https://HOST:PORT"},
		{"no host", kubeconfig("server: 'https://:6443'", token), true, "https://HOST:PORT"},
		{"line break", kubeconfig(`server: "https://example.com\n/x"`, token), true, "https://HOST:PORT"},
		{"user in server", kubeconfig("server: 'https://u:"+secretToken+"@example.com'", ""), true, "more than scheme"},
		{"query", kubeconfig("server: 'https://example.com?a="+secretToken+"'", ""), true, "more than scheme"},

		{"line break in token", kubeconfig(server, `token: "`+secretToken+`\nX-Evil: 1"`), false, "token holds white space"},
		{"two ways", kubeconfig(server, token+", username: u, password: p"), false, "both a token and a username"},
		{"CA and insecure", kubeconfig(server+", insecure-skip-tls-verify: true, certificate-authority-data: "+cert, token), true, "makes no sense"},
		{"bad CA", kubeconfig(server+", certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(secretToken)), token), false, "no PEM certificate"},
		{"CA not base64", kubeconfig(server+", certificate-authority-data: '*"+secretToken+"'", token), false, "does not parse"},
		{"certificate alone", kubeconfig(server, "client-certificate-data: "+cert), false, "one is missing"},
		{"key alone", kubeconfig(server, "client-key-data: "+key), false, "one is missing"},
		{"other key", kubeconfig(server, "client-certificate-data: "+cert+", client-key-data: "+otherKey), false, "not a PEM certificate and its key"},
	} {
		config, err := parseKubeconfig([]byte(c.in), c.insecure)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		case err != nil && (strings.Contains(err.Error(), secretToken) || strings.Contains(err.Error(), secretToken[:6])):
			t.Errorf("%s: the error tells the credential: %v", c.name, err)
		}
		if err == nil && (config.ExecProvider != nil || config.BearerTokenFile != "" || config.CAFile != "" || config.Proxy != nil) {
			t.Errorf("%s: config %v", c.name, config)
		}
	}
}

func TestLoadKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := kubeconfig("server: 'https://example.com:6443'", "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadKubeconfig(path)
	if err != nil || c.ExecProvider == nil {
		t.Errorf("the operator's kubeconfig may run a plugin: %v, %v", c, err)
	}
	if _, err := LoadKubeconfig(path + "x"); err == nil || !strings.Contains(err.Error(), path+"x") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := LoadKubeconfig(""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("no file and no pod: %v", err)
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(goodKubeconfig(secretToken)), false)
	f.Add([]byte(kubeconfig("server: 'http://x', insecure-skip-tls-verify: true", "exec: {command: x}")), true)
	f.Fuzz(func(t *testing.T, data []byte, insecure bool) {
		c, err := parseKubeconfig(data, insecure)
		if err != nil {
			return
		}
		if c.ExecProvider != nil || c.AuthProvider != nil || c.BearerTokenFile != "" || c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" ||
			c.Proxy != nil || c.Impersonate.UserName != "" || !insecure && (c.Insecure || !strings.HasPrefix(c.Host, "https://")) {
			t.Errorf("config %v", c)
		}
	})
}
