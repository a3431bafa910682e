// Package lab runs several real Kubernetes clusters at once: one embedded etcd
// and, for each cluster, a kube-apiserver and, if wanted, a
// kube-controller-manager, so that what tests create becomes EndpointSlices as
// in any cluster. There are no kubelets: helpers play their part.
//
// It never fakes an API, skips a certificate check, or talks to a cluster that
// it did not start. Nothing outlives the process that called it.
//
// Tests call Start, once for each package and not for each test, and use a
// namespace of their own in it (Lab.Namespace). The benchmark and demo programs
// call New, and the same helpers through tb.Run.
//
// A Lab and its Clusters may be used from any goroutine. The helpers that take
// a tb.T fail that test, and are called from its goroutine.
package lab
