package dataset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Ports of every service and of its endpoints.
const (
	servicePort  = 80
	endpointPort = 8080
)

// NamespacePrefix starts the names of all namespaces of the data.
const NamespacePrefix = "bench-"

func serviceName(i int) string { return fmt.Sprintf("svc-%d", i) }

func (d *Data) namespace(service int) string {
	return fmt.Sprintf("%s%d", NamespacePrefix, service%d.shape.Namespaces)
}

func (d *Data) createNamespaces(ctx context.Context, cluster int) error {
	for i := range d.shape.Namespaces {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace(i)}}
		if _, err := d.clusters[cluster].Client.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// createService creates a service with its slice and pods in one cluster.
func (d *Data) createService(ctx context.Context, s spot) error {
	client, name, namespace := d.clusters[s.cluster].Client, serviceName(s.service), d.namespace(s.service)
	_, err := client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: servicePort}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if d.shape.Pods {
		for k := range d.shape.Endpoints {
			uid, err := d.createPod(ctx, s, podName(s, k), address(d.first(s)+k))
			if err != nil {
				return err
			}
			d.mu.Lock()
			d.uids[place{s, k}] = uid
			d.mu.Unlock()
		}
	}
	_, err = client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, d.slice(s), metav1.CreateOptions{})
	return err
}

// slice returns the slice of a service as Fill creates it.
func (d *Data) slice(s spot) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName(s.service) + "-0", Namespace: d.namespace(s.service),
			Labels: map[string]string{discoveryv1.LabelServiceName: serviceName(s.service)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](endpointPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   make([]discoveryv1.Endpoint, d.shape.Endpoints),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range o.Endpoints {
		e := &o.Endpoints[k]
		e.Addresses = []string{address(d.first(s) + k)}
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)}
		if d.shape.Pods {
			e.TargetRef = podReference(o.Namespace, podName(s, k), d.uids[place{s, k}])
		}
	}
	return o
}

func podName(s spot, endpoint int) string { return fmt.Sprintf("svc-%d-%d", s.service, endpoint) }

func podReference(namespace, name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// createPod creates a pod that runs and is ready, and returns its uid. Of its
// eight labels one is its own, three are its service's, and the others are
// shared by many services.
func (d *Data) createPod(ctx context.Context, s spot, name, ip string) (uid string, err error) {
	pods := d.clusters[s.cluster].Client.CoreV1().Pods(d.namespace(s.service))
	app := serviceName(s.service)
	p, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"app":                             app,
			"service.istio.io/canonical-name": app,
			"security.istio.io/tlsMode":       "istio",
			"version":                         fmt.Sprintf("v%d", s.service%3),
			"tier":                            fmt.Sprintf("tier-%d", s.service%5),
			"team":                            fmt.Sprintf("team-%d", s.service%40),
			"apps.kubernetes.io/pod-name":     name,
			"controller-revision-hash":        fmt.Sprintf("%s-%08x", app, uint32(s.service)*2654435761),
		}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default", NodeName: fmt.Sprintf("node-%d", s.service%50),
			Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return string(p.UID), err
}
