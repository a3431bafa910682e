package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/csv"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// Token is a bearer token that the API servers accept, and who it stands for.
// What it may do is given by RBAC objects, which a test applies.
type Token struct {
	Token  string
	User   string
	Groups []string
}

// admin may do everything.
var admin = Token{Token: "admin-token", User: "admin", Groups: []string{"system:masters"}}

// writeTokens writes a token file for an API server, which reads it once, at
// its start.
func writeTokens(path string, tokens []Token) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, t := range tokens {
		if err := w.Write([]string{t.Token, t.User, t.User, strings.Join(t.Groups, ",")}); err != nil {
			return fmt.Errorf("writing the token of %s: %w", t.User, err)
		}
	}
	w.Flush()
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing tokens: %w", err)
	}
	return nil
}

// writeServiceAccountKey writes a new key, with which a cluster signs the
// tokens of its service accounts.
func writeServiceAccountKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a service account key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("making a service account key: %w", err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("writing a service account key: %w", err)
	}
	return nil
}

// freePort returns a loopback port that nobody listens on. It lies below those
// that the kernel gives to outgoing connections, or one of them could take it
// while an API server is stopped.
func freePort() (int, error) {
	const low, high, tries = 20000, 32000, 50
	var last error
	for range tries {
		port := low + mathrand.IntN(high-low)
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("finding a free port, %d tries: %w", tries, last)
}
