package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tributary/test/serve"
)

// TestLargeFleet: 300 services of six clusters, with long names, are shown, and
// searched.
func TestLargeFleet(t *testing.T) {
	const services, clusters = 300, 6
	fleet := map[string]string{}
	for c := range clusters {
		var b strings.Builder
		for i := range services {
			name := fmt.Sprintf("a-service-of-a-rather-long-name-%03d", i)
			fmt.Fprintf(&b, "apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: the-namespace-of-a-team-%d}\nspec: {clusterIP: 10.%d.%d.%d, ports: [{name: http, port: 80}]}\n---\n", name, i%7, 96+c, i/250, i%250+1)
			fmt.Fprintf(&b, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s, namespace: the-namespace-of-a-team-%d, labels: {kubernetes.io/service-name: %s}}\naddressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{addresses: [10.%d.%d.%d]}]\n---\n", name, i%7, name, 16+c, i/250, i%250+1)
		}
		fleet[fmt.Sprintf("cluster-of-region-%d/all.yaml", c)] = b.String()
	}
	s := serve.New(t, tributary, fleet)
	s.Start(t)
	p := open(t)
	p.do(chromedp.Navigate("http://" + serve.HTTP + "/"))
	p.wait("the page to be live", shows("#live", "live"))
	for c := range clusters {
		p.wait("every cluster", shows("#clusters h3", fmt.Sprint("cluster-of-region-", c)))
	}
	p.wait("services", "document.querySelectorAll('#service-rows tr').length >= 50 && "+shows("#services-count", "300")+" && "+shows("#service-rows .meter", "6 / 6"))
	// What is there can be seen: it has a size, and the page is not wider than the window.
	for _, selector := range []string{"#clusters li", "#service-rows tr.service", "#totals dd"} {
		p.wait(selector+" to have a size", fmt.Sprintf("[...document.querySelectorAll(%q)].slice(0, 5).every((e) => e.getBoundingClientRect().height > 10 && e.getBoundingClientRect().width > 10)", selector))
	}
	p.wait("the page to fit", "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
	p.do(chromedp.SendKeys("#search", "name-299"))
	p.wait("the one that is searched", shows("#services-count", "1")+" && "+shows("#service-rows", "a-service-of-a-rather-long-name-299"))
	if errors := p.noted(); len(errors) > 0 {
		t.Errorf("the console has %q", errors)
	}
}
