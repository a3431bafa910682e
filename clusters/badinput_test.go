package clusters_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"tributary/clusters"
	"tributary/clusters/kube"
	"tributary/test/fakeapi"
	"tributary/test/tb"
)

// authority is a certificate authority.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string // base64, as in a kubeconfig

	connections func(net.Conn, http.ConnState) // may be nil
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// serve runs an API server with a certificate of a.
func (a *authority) serve(name string, until time.Time, h http.HandlerFunc) string {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, DNSNames: []string{name}}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ConnState = a.connections
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	a.t.Cleanup(s.Close)
	return s.URL
}

// empty answers like a cluster in which there is nothing.
func empty(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`)
}

// answer always answers the same; %s is the credential that was sent.
func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(code)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "%s", strings.TrimPrefix(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "Basic ")))
	}
}

// credential is in every kubeconfig below, and must be nowhere else.
const credential = "s3cr3t-that-nobody-prints"

func kubeconfigOf(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: k, user: u}}]\n" +
		"clusters: [{name: k, cluster: {" + cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n"
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Kubeconfigs that are refused, that lead nowhere, and that lead to servers that
// mean harm: what becomes of each. They stand in one secret beside one that is
// well, and are met with real TLS.
func TestBadKubeconfigs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("table", badKubeconfigs) // whose servers end before
}

func badKubeconfigs(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	followed := make(chan string, 100)
	elsewhere := ca.serve("127.0.0.1", later, func(_ http.ResponseWriter, r *http.Request) { followed <- r.URL.Path + r.Header.Get("Authorization") })
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { followed <- "proxy " + r.URL.Path }))
	defer proxy.Close()
	good := ca.serve("127.0.0.1", later, empty)

	const token = "token: " + credential
	trust := ", certificate-authority-data: " + ca.pem
	at := func(server, user string) string { return kubeconfigOf("server: '"+server+"'"+trust, user) }
	status := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	}
	many := strings.Builder{}
	many.WriteString("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: k, cluster: {server: '" + good + "'" + trust + "}}]\nusers: [{name: u, user: {" + token + "}}]\ncontexts:\n- {name: x, context: {cluster: k, user: u}}\n")
	for i := range 10_000 {
		fmt.Fprintf(&many, "- {name: x%d, context: {cluster: k, user: u}}\n", i)
	}

	for _, insecure := range []bool{false, true} {
		refused := func(state clusters.State) clusters.State { // what the setting changes
			if insecure {
				return state
			}
			return clusters.Invalid
		}
		table := map[string]struct {
			kubeconfig string
			state      clusters.State
			reason     string
		}{
			"well":          {at(good, token), clusters.Synced, ""},
			"many-contexts": {many.String(), clusters.Synced, ""},
			"server-name":   {at(ca.serve("other.example", later, empty), token), clusters.Pending, "cannot validate certificate for 127.0.0.1"},
			"named-server":  {kubeconfigOf("tls-server-name: other.example, server: '"+ca.serve("other.example", later, empty)+"'"+trust, token), clusters.Synced, ""},
			"expired":       {at(ca.serve("127.0.0.1", time.Now().Add(-time.Hour), empty), token), clusters.Pending, "expired"},
			"unknown-ca":    {kubeconfigOf("server: '"+good+"', certificate-authority-data: "+other.pem, token), clusters.Pending, "unknown authority"},
			"no-ca":         {kubeconfigOf("server: '"+good+"'", token), clusters.Pending, "unknown authority"},
			"no-tls":        {at(strings.Replace(proxy.URL, "http:", "https:", 1), token), clusters.Pending, "server gave HTTP response to HTTPS client"},
			"nobody":        {at("https://127.0.0.1:1", token), clusters.Pending, "refused"},
			"no-such-host":  {at("https://no-such-host.invalid", token), clusters.Pending, "no-such-host.invalid"},
			"skip-verify":   {kubeconfigOf("server: '"+good+"', insecure-skip-tls-verify: true", token), refused(clusters.Synced), "skip-tls-verify"},
			"redirect": {at(ca.serve("127.0.0.1", later, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusFound)
			}), token), clusters.Pending, "redirects elsewhere"},
			"moved": {at(ca.serve("127.0.0.1", later, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
			}), "username: u, password: "+credential), clusters.Pending, "redirects elsewhere"},
			"unauthorized": {at(ca.serve("127.0.0.1", later, answer(401, status(401, "Unauthorized", "no"))), token), clusters.Denied, ""},
			"forbidden":    {at(ca.serve("127.0.0.1", later, answer(403, status(403, "Forbidden", "no %s for you\nand\tno more"))), token), clusters.Denied, "no [credential] for you and no more"},
			"forbidden-basic": {at(ca.serve("127.0.0.1", later, answer(403, status(403, "Forbidden", "no %s"))), "username: u, password: "+credential),
				clusters.Denied, "no [credential]"},
			"hostile-error": {at(ca.serve("127.0.0.1", later, answer(500, status(500, "InternalError", "%s"))), token), clusters.Pending, "the API server fails"},
			"hostile-text":  {at(ca.serve("127.0.0.1", later, answer(200, "<html>%s")), token), clusters.Pending, "the answer cannot be read"},
			"hostile-json":  {at(ca.serve("127.0.0.1", later, answer(200, `{"kind":"Secret","apiVersion":"v1","data":"%s"}`)), token), clusters.Pending, "the answer cannot be read"},
			"hostile-long":  {at(ca.serve("127.0.0.1", later, answer(403, status(403, "Forbidden", strings.Repeat("x", 100_000)))), token), clusters.Denied, "xxx..."},
			"exec":          {at(good, token+", exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'touch /tmp/"+credential+"'], interactiveMode: Never}"), clusters.Invalid, "exec is not allowed"},
			"auth-provider": {at(good, token+", auth-provider: {name: oidc, config: {client-secret: "+credential+"}}"), clusters.Invalid, "auth-provider is not allowed"},
			"token-file":    {at(good, "tokenFile: /etc/hostname"), clusters.Invalid, "tokenFile is not allowed"},
			"cert-file":     {at(good, "client-certificate: /etc/hostname, client-key: /etc/hostname"), clusters.Invalid, "client-certificate is not allowed"},
			"ca-file":       {kubeconfigOf("server: '"+good+"', certificate-authority: /etc/hostname", token), clusters.Invalid, "certificate-authority is not allowed"},
			"proxy":         {kubeconfigOf("server: '"+good+"', proxy-url: '"+proxy.URL+"'", token), clusters.Invalid, "proxy-url is not allowed"},
			"impersonation": {at(good, token+", as: admin"), clusters.Invalid, "impersonation"},
			"newline":       {at(good, `token: "`+credential+`\nX-Injected: 1"`), clusters.Invalid, "control character"},
			"newline-user":  {at(good, `username: "u\nv", password: `+credential), clusters.Invalid, "control character"},
			"newline-host":  {kubeconfigOf(`server: "https://127.0.0.1:1\n/`+credential+`"`, ""), clusters.Invalid, "https://HOST:PORT"},
			"newline-sni":   {kubeconfigOf("server: '"+good+`', tls-server-name: "a\nb"`, token), clusters.Invalid, "control character"},
			"user-in-url":   {at("https://u:"+credential+"@127.0.0.1:1", ""), clusters.Invalid, "more than scheme"},
			"huge":          {at(good, token) + "#" + strings.Repeat("x", 1<<20), clusters.Invalid, "larger than 1024 KiB"},
			"aliases":       {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n", clusters.Invalid, "does not parse"},
			"garbage":       {"\x00\xff" + credential, clusters.Invalid, "does not parse"},
			"empty":         {"", clusters.Invalid, "current-context is not set"},
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "all", Labels: map[string]string{"istio/multiCluster": "true"}}, Data: map[string][]byte{},
		}
		for id, row := range table {
			secret.Data[id] = []byte(row.kubeconfig)
		}
		api := fakeapi.New()
		api.Put("secrets", secret)
		output := &syncBuffer{}
		klog.LogToStderr(false)
		klog.SetOutput(output)
		registry := prometheus.NewRegistry()
		manager, err := clusters.New(clusters.Options{
			ClusterID: "config", Secrets: api.Client(t), Metrics: registry, AllowInsecure: insecure,
			Logger:    slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelDebug})),
			NewRunner: watcherOf,
		})
		if err != nil {
			t.Fatal(err)
		}
		core := &core{manager: manager, rows: map[string]bool{}, ends: map[string]int{}}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- manager.Run(ctx, core.out) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		defer stop()
		tb.Eventually(t, 20*time.Second, "every cluster to be as the table says", func(context.Context) error {
			list := manager.List()
			if len(list) != len(table) {
				return fmt.Errorf("%d clusters of %d", len(list), len(table))
			}
			var errs []error
			for _, s := range list {
				want := table[string(s.ID)]
				if s.State != want.state || want.state != clusters.Synced && !strings.Contains(s.Reason, want.reason) {
					errs = append(errs, fmt.Errorf("%s is %v because of %q, want %v because of %q", s.ID, s.State, s.Reason, want.state, want.reason))
				}
			}
			return errors.Join(errs...)
		})
		pages, err := json.Marshal(manager.List())
		if err != nil {
			t.Fatal(err)
		}
		_, waiting := manager.Ready(time.Now())
		metrics := metricsOf(registry)
		stop()
		klog.Flush()
		klog.LogToStderr(true)
		text := output.String() + string(pages) + fmt.Sprint(waiting) + metrics
		for _, secret := range []string{credential, base64.StdEncoding.EncodeToString([]byte("u:" + credential)), credential[:12]} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("a credential is told: %q", text[max(0, i-300):min(len(text), i+100)])
			}
		}
		if strings.Contains(text, "\nX-Injected") {
			t.Error("a line was injected")
		}
		for id := range table {
			if n := strings.Count(text, "level=ERROR msg=\"kubeconfig is refused\" cluster="+id+" "); n > 1 {
				t.Errorf("%s was told %d times", id, n)
			}
		}
	}
	select {
	case what := <-followed:
		t.Errorf("a redirect or proxy was followed: %s", what)
	default:
	}
}

// metricsOf returns the page of metrics.
func metricsOf(g prometheus.Gatherer) string {
	page := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page.Body.String()
}

// watcherOf makes the source that cmd makes.
func watcherOf(s clusters.Spec) (clusters.Runner, error) {
	client, closeAll, err := kube.Dial(s.Config)
	if err != nil {
		return nil, err
	}
	return kube.NewWatcher(kube.WatchConfig{Source: s.Source, Epoch: s.Epoch, Client: client, Close: closeAll}), nil
}
