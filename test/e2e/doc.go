// Package e2e tests the whole of Tributary with real parts: the tributary
// binary, Kubernetes API servers with their controllers, and Envoy that carries
// requests. It has tests only.
//
// Everything runs in a network namespace of its own, in which the addresses of
// pods are real.
package e2e
