package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary/test/tb"
)

// Secrets starts a server that does what the agent beside an Istio proxy does: it
// gives it a certificate, "default", and the root that signed it, "ROOTCA". It
// returns the address; the server ends with the test.
func Secrets(t tb.T) string {
	t.Helper()
	own, root, err := certificate()
	if err != nil {
		t.Fatalf("making a certificate: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening for secrets: %v", err)
	}
	s := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(s, &agent{secrets: map[string]*tlsv3.Secret{
		"default": {Name: "default", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: own}},
		"ROOTCA":  {Name: "ROOTCA", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: root}}},
	}})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

// agent answers each first request for a secret; secrets do not change.
type agent struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	secrets map[string]*tlsv3.Secret
}

// StreamSecrets implements the state-of-the-world variant.
func (a *agent) StreamSecrets(st secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	for {
		r, err := st.Recv()
		if err != nil {
			return err
		}
		if r.ResponseNonce != "" {
			continue // an acknowledgement
		}
		answer := &discoveryv3.DiscoveryResponse{TypeUrl: r.TypeUrl, VersionInfo: "1", Nonce: "1"}
		for _, name := range r.ResourceNames {
			packed, err := anypb.New(a.secrets[name])
			if err != nil {
				return fmt.Errorf("secret %q: %w", name, err)
			}
			answer.Resources = append(answer.Resources, packed)
		}
		if err := st.Send(answer); err != nil {
			return err
		}
	}
}

// certificate makes a certificate that signs itself, with the identity of a
// workload.
func certificate() (own *tlsv3.TlsCertificate, root *corev3.DataSource, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/test"}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	inline := func(kind string, b []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})}}
	}
	root = inline("CERTIFICATE", der)
	return &tlsv3.TlsCertificate{CertificateChain: root, PrivateKey: inline("PRIVATE KEY", private)}, root, nil
}
