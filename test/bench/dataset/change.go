package dataset

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Replace writes the slice of a service in a cluster so that its first endpoint
// has the given address: one endpoint leaves and one comes. With pods, the new
// endpoint's is made first and that of the one before it, if it came by Replace
// too, goes afterwards. begin is called just before the slice is written.
func (d *Data) Replace(ctx context.Context, service, cluster int, ip string, begin func()) error {
	s := spot{cluster, service}
	if err := d.replace(ctx, s, ip, begin); err != nil {
		return fmt.Errorf("changing %s in cluster %s: %w", serviceName(service), d.clusters[cluster].ID, err)
	}
	return nil
}

func (d *Data) replace(ctx context.Context, s spot, ip string, begin func()) error {
	o := d.slice(s)
	o.Endpoints[0].Addresses = []string{ip}
	pod := ""
	if d.shape.Pods {
		pod = serviceName(s.service) + "-" + strings.ReplaceAll(ip, ".", "-")
		uid, err := d.createPod(ctx, s, pod, ip)
		if err != nil {
			return err
		}
		o.Endpoints[0].TargetRef = podReference(o.Namespace, pod, uid)
	}
	d.mu.Lock()
	before := d.changed[s]
	d.changed[s] = pod
	d.mu.Unlock()
	begin()
	// Without a resourceVersion: nobody else writes it.
	if _, err := d.clusters[s.cluster].Client.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return d.deletePod(ctx, s, before)
}

// deletePod deletes a pod that Replace made, if there is one.
func (d *Data) deletePod(ctx context.Context, s spot, name string) error {
	if name == "" {
		return nil
	}
	return d.clusters[s.cluster].Client.CoreV1().Pods(d.namespace(s.service)).Delete(ctx, name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

// Restore undoes all changes, so that the next server starts with the data that
// the one before it started with.
func (d *Data) Restore(ctx context.Context) error {
	for s, pod := range d.changed {
		o := d.slice(s)
		_, err := d.clusters[s.cluster].Client.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, metav1.UpdateOptions{})
		if err == nil {
			err = d.deletePod(ctx, s, pod)
		}
		if err != nil {
			return fmt.Errorf("restoring %s in cluster %s: %w", o.Name, d.clusters[s.cluster].ID, err)
		}
		delete(d.changed, s)
	}
	return nil
}
