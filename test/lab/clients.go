package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// clients reach a cluster as its admin. They are made when the API server has
// written its certificate, and then never change.
type clients struct {
	mu      sync.Mutex // guards the making
	config  *rest.Config
	http    *http.Client // shared by all clients below
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	kinds   *restmapper.DeferredDiscoveryRESTMapper
}

// connect makes the clients, if the certificate is there.
func (c *Cluster) connect() error {
	c.clients.mu.Lock()
	defer c.clients.mu.Unlock()
	if c.clients.kube != nil {
		return nil
	}
	// The API server's certificate signed itself: it is its own CA. The file has
	// the CA after the leaf, and the key is written after both: without it the
	// certificates may be there only in part, and read once they would stay so.
	if _, err := os.Stat(c.path("certs/apiserver.key")); err != nil {
		return fmt.Errorf("the certificates are not complete: %w", err)
	}
	ca, err := os.ReadFile(c.path("certs/apiserver.crt"))
	if err != nil {
		return err
	}
	config := &rest.Config{
		Host:            c.url(),
		BearerToken:     admin.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		QPS:             -1,
	}
	if err := c.clients.make(config); err != nil {
		return fmt.Errorf("making clients of %s: %w", c.ID, err)
	}
	if err := os.WriteFile(c.KubeconfigFile(), c.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", c.ID, err)
	}
	return nil
}

func (cl *clients) make(config *rest.Config) (err error) {
	if cl.http, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	if cl.dynamic, err = dynamic.NewForConfigAndClient(config, cl.http); err != nil {
		return err
	}
	about, err := discovery.NewDiscoveryClientForConfigAndClient(config, cl.http)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfigAndClient(protobuf, cl.http)
	if err != nil {
		return err
	}
	cl.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(about))
	cl.config, cl.kube = config, kube
	return nil
}

func (c *Cluster) closeClients() {
	if c.clients.http != nil {
		utilnet.CloseIdleConnectionsFor(c.clients.http.Transport)
	}
}

// Client returns a client for the admin, without a rate limit.
func (c *Cluster) Client() kubernetes.Interface { return c.clients.kube }

// Dynamic returns a client for the admin and any kind of object.
func (c *Cluster) Dynamic() dynamic.Interface { return c.clients.dynamic }

// Config returns the configuration of a client for the admin; the caller may
// change it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.clients.config) }

// Kubeconfig returns a kubeconfig for the admin.
func (c *Cluster) Kubeconfig() []byte { return c.KubeconfigFor(admin.Token) }

// KubeconfigFile returns the path of a file with Kubeconfig in it.
func (c *Cluster) KubeconfigFile() string { return c.path("kubeconfig") }

// KubeconfigFor returns a kubeconfig with another bearer token.
func (c *Cluster) KubeconfigFor(token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: %[1]q
  cluster:
    server: %[2]q
    certificate-authority-data: %[3]s
users:
- name: user
  user:
    token: %[4]q
contexts:
- name: %[1]q
  context:
    cluster: %[1]q
    user: user
current-context: %[1]q
`, c.ID, c.url(), base64.StdEncoding.EncodeToString(c.clients.config.CAData), token)
}

// RemoteSecret returns the secret, not yet created, that tells a control plane
// in another cluster of this one: in the given namespace, with the admin's
// kubeconfig under the cluster's id.
func (c *Cluster) RemoteSecret(namespace string) *corev1.Secret {
	return c.RemoteSecretFor(namespace, admin.Token)
}

// RemoteSecretFor is RemoteSecret with another bearer token.
func (c *Cluster) RemoteSecretFor(namespace, token string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "istio-remote-secret-" + c.ID,
			Namespace:   namespace,
			Labels:      map[string]string{"istio/multiCluster": "true"},
			Annotations: map[string]string{"networking.istio.io/cluster": c.ID},
		},
		Data: map[string][]byte{c.ID: c.KubeconfigFor(token)},
	}
}

// controllersWork is the condition that the controller manager does its work:
// it has made a service account.
func (c *Cluster) controllersWork(ctx context.Context) error {
	_, err := c.Client().CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return errors.Join(errors.New("it has not made the default service account"), err)
	}
	return nil
}
