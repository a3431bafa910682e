package lab

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary/test/tb"
)

// do runs the calls of one helper and fails the test with what it was doing.
func (c *Cluster) do(t tb.T, what string, calls func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	if err := calls(ctx); err != nil {
		t.Fatalf("%s in %s: %v", what, c.ID, err)
	}
}

var namespaces atomic.Int64

// Namespace creates a namespace with a name of its own in every cluster of the
// lab and returns the name. It stays until the lab ends: deleting one takes
// seconds.
func (l *Lab) Namespace(t tb.T, prefix string) string {
	t.Helper()
	name := fmt.Sprintf("%s-%d", strings.ToLower(prefix), namespaces.Add(1))
	for _, c := range l.Clusters() {
		c.CreateNamespace(t, name)
	}
	return name
}

// CreateNamespace creates a namespace, unless it is there.
func (c *Cluster) CreateNamespace(t tb.T, name string) {
	t.Helper()
	c.do(t, "creating namespace "+name, func(ctx context.Context) error {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := c.Client().CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

// CreateNode creates a node in a region and zone, unless it is there. A pod
// enters an EndpointSlice only if its node exists.
func (c *Cluster) CreateNode(t tb.T, name, region, zone string) {
	t.Helper()
	c.do(t, "creating node "+name, func(ctx context.Context) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:       name,
			corev1.LabelTopologyRegion: region,
			corev1.LabelTopologyZone:   zone,
		}}}
		_, err := c.Client().CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Port makes a TCP port of a service, with the pods' port the same.
func Port(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP}
}

// CreateService creates a service of type ClusterIP and returns it as it was
// stored. Without a selector no EndpointSlices come.
func (c *Cluster) CreateService(t tb.T, namespace, name string, selector map[string]string, ports ...corev1.ServicePort) *corev1.Service {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: ports},
	}
	c.do(t, fmt.Sprintf("creating service %s/%s", namespace, name), func(ctx context.Context) (err error) {
		s, err = c.Client().CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	})
	return s
}

// Pod says which pod to create.
type Pod struct {
	Namespace, Name string
	// IP is the pod's address; none if empty. It cannot be a loopback address.
	IP string
	// Labels are the pod's.
	Labels map[string]string
	// Node is the node's name; the node must exist.
	Node string
	// ServiceAccount is the name of the pod's; it need not exist.
	ServiceAccount string
	// NotReady leaves the pod running and not ready.
	NotReady bool
}

// CreatePod creates a pod and, in place of a kubelet, has it run.
func (c *Cluster) CreatePod(t tb.T, p Pod) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
		Spec: corev1.PodSpec{
			NodeName:           p.Node,
			ServiceAccountName: p.ServiceAccount,
			Containers:         []corev1.Container{{Name: "main", Image: "none"}},
			// No kubelet would end the pod when it is deleted.
			TerminationGracePeriodSeconds: new(int64),
		},
	}
	c.do(t, fmt.Sprintf("creating pod %s/%s", p.Namespace, p.Name), func(ctx context.Context) (err error) {
		pods := c.Client().CoreV1().Pods(p.Namespace)
		if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod.Status = podStatus(p.IP, !p.NotReady)
		pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	return pod
}

// CreateReadyPod creates a pod that runs and is ready.
func (c *Cluster) CreateReadyPod(t tb.T, namespace, name, ip string, labels map[string]string, node string) *corev1.Pod {
	t.Helper()
	return c.CreatePod(t, Pod{Namespace: namespace, Name: name, IP: ip, Labels: labels, Node: node})
}

// SetPodReady makes a running pod ready, or not ready.
func (c *Cluster) SetPodReady(t tb.T, namespace, name string, ready bool) {
	t.Helper()
	c.do(t, fmt.Sprintf("setting pod %s/%s ready=%v", namespace, name, ready), func(ctx context.Context) error {
		pods := c.Client().CoreV1().Pods(namespace)
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status = podStatus(pod.Status.PodIP, ready)
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// DeletePod deletes a pod; it is gone when this returns.
func (c *Cluster) DeletePod(t tb.T, namespace, name string) {
	t.Helper()
	c.do(t, fmt.Sprintf("deleting pod %s/%s", namespace, name), func(ctx context.Context) error {
		return c.Client().CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

// podStatus is what a kubelet would write of a running pod.
func podStatus(ip string, ready bool) corev1.PodStatus {
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now())}
	if ready {
		condition.Status = corev1.ConditionTrue
	}
	status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{condition}}
	if ip != "" {
		status.PodIP, status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	return status
}

// CreateSecret creates a secret in the namespace that it names.
func (c *Cluster) CreateSecret(t tb.T, s *corev1.Secret) {
	t.Helper()
	c.do(t, fmt.Sprintf("creating secret %s/%s", s.Namespace, s.Name), func(ctx context.Context) error {
		_, err := c.Client().CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	})
}

// CreateServiceAccount creates a service account and returns a token for it.
// The token is refused once the service account is deleted, up to 10 s later:
// the API server remembers tokens that it accepted.
func (c *Cluster) CreateServiceAccount(t tb.T, namespace, name string) (token string) {
	t.Helper()
	c.do(t, fmt.Sprintf("creating service account %s/%s", namespace, name), func(ctx context.Context) error {
		accounts := c.Client().CoreV1().ServiceAccounts(namespace)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); ignoreExists(err) != nil {
			return err
		}
		request, err := accounts.CreateToken(ctx, name, &authv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
		}
		return err
	})
	return token
}

// EndpointSlices returns the slices of a service.
func (c *Cluster) EndpointSlices(ctx context.Context, namespace, service string) ([]discoveryv1.EndpointSlice, error) {
	list, err := c.Client().DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, fmt.Errorf("listing the slices of %s/%s in %s: %w", namespace, service, c.ID, err)
	}
	return list.Items, nil
}
