package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tributary/test/serve"
	"tributary/test/tb"
)

// page is a tab of a Chromium that shows a page.
type page struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // of its console
}

// open starts a browser, which ends with the test.
func open(t *testing.T) *page {
	t.Helper()
	data, err := os.MkdirTemp("", "tributary-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.UserDataDir(data), chromedp.NoSandbox,
		chromedp.Flag("force-prefers-reduced-motion", true)) // a click must not meet a page that still scrolls
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocator)
	var listening sync.WaitGroup
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("closing the browser: %v", err)
		}
		cancel()
		listening.Wait()
	})
	p := &page{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // starts it; it lives as long as ctx
		t.Fatalf("starting chromium: %v", err)
	}
	entries := chromedp.Events(ctx, log.EntryAdded)
	exceptions := chromedp.Events(ctx, runtime.ExceptionThrown)
	calls := chromedp.Events(ctx, runtime.ConsoleAPICalled)
	listening.Go(func() {
		for e, err := range entries {
			if err != nil {
				return
			}
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				p.note(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
			}
		}
	})
	listening.Go(func() {
		for e, err := range exceptions {
			if err != nil {
				return
			}
			p.note("exception: " + e.ExceptionDetails.Text)
		}
	})
	listening.Go(func() {
		for e, err := range calls {
			if err != nil {
				return
			}
			p.note(fmt.Sprintf("console.%s", e.Type))
		}
	})
	return p
}

func (p *page) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, s)
}

func (p *page) noted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.errors...)
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// click clicks on an element, in the middle of the window where nothing is above
// it.
func (p *page) click(selector string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("document.querySelector(%q).scrollIntoView({ block: 'center', behavior: 'instant' })", selector))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// eval returns the value of an expression, as JSON has it.
func (p *page) eval(expression string) string {
	p.t.Helper()
	b, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]byte](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return string(b)
}

// wait waits until an expression is true.
func (p *page) wait(what, expression string) {
	p.t.Helper()
	var last string
	tb.Eventually(p.t, 20*time.Second, what, func(context.Context) error {
		b, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]byte]("Boolean("+expression+")"))
		if err != nil {
			return fmt.Errorf("asking for %s: %w", expression, err)
		}
		if last = string(b); last != "true" {
			return fmt.Errorf("%s is %s; the page shows:\n%s\nand its console %q", expression, last, p.text(), p.noted())
		}
		return nil
	})
}

func (p *page) text() string {
	var s string
	b, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]byte]("document.body.innerText"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return err.Error()
	}
	return s
}

// shows is an expression: an element with this selector shows a text.
func shows(selector, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, text)
}

const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`

// hostileShop has texts that try to be markup wherever a manifest can have some.
func hostileShop() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: evil, namespace: shop}
spec: {clusterIP: 10.96.0.66, ports: [{name: '%[1]s', port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: evil-1, namespace: shop, labels: {topology.istio.io/network: '%[1]s', istio-locality: '%[1]s'}}
spec: {serviceAccountName: evil}
status: {phase: Running, podIP: 10.9.9.9, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: evil-a, namespace: shop, labels: {kubernetes.io/service-name: evil}}
addressType: IPv4
ports: [{name: '%[1]s', port: 80}]
endpoints: [{addresses: [10.9.9.9], targetRef: {kind: Pod, name: evil-1}}]
`, hostile)
}

func TestPage(t *testing.T) {
	s := serve.New(t, tributary, map[string]string{
		"east/shop.yaml": serve.Shop("10.1.0.1", 8080, true),
		"west/shop.yaml": serve.Shop("10.2.0.1", 8080, true),
		"west/evil.yaml": hostileShop(),
		`west/<img src=x onerror="window.pwned=1">.yaml`: "kind: [",
	})
	s.Start(t)
	p := open(t)
	p.do(chromedp.Navigate("http://" + serve.HTTP + "/"))
	const toggle = `document.querySelector('tr.service button.toggle')`

	p.wait("the page to be live", shows("#live", "live"))
	p.wait("the clusters", shows("#clusters h3", "east")+" && "+shows("#clusters h3", "west"))
	p.wait("readiness", shows("#ready", "Ready"))
	p.wait("the services", shows("#service-rows", "cart.shop.svc.cluster.local")+" && "+shows("#services-count", "2"))
	p.wait("what is served", shows("#service-rows .meter", "2 / 2"))
	p.wait("the totals", shows("#totals", "Endpoints"))

	// By keyboard: the first stop skips to the services; the services can be
	// opened without a mouse.
	p.do(chromedp.KeyEvent(kb.Tab))
	p.wait("the link that skips", "document.activeElement.classList.contains('skip')")
	p.do(chromedp.KeyEvent(kb.Enter))
	for range 10 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if p.eval("document.activeElement.classList.contains('toggle')") == "true" {
			break
		}
	}
	p.wait("the focus on the first service", "document.activeElement === "+toggle)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.wait("the endpoints", toggle+".getAttribute('aria-expanded') === 'true' && "+shows("table.endpoints", "10.1.0.1:8080")+" && "+shows("table.endpoints", "10.2.0.1:8080"))
	p.wait("their pods", shows("table.endpoints", "cart-1")+" && "+shows("table.endpoints", "shop/cart-a"))
	p.wait("the link that explains", `document.querySelector('tr.detail a').getAttribute('href') === '/debug/explain?host=cart.shop.svc.cluster.local&namespace=shop'`)

	// A manifest is edited: the page shows it, without being loaded again, and the
	// focus stays where it is.
	p.eval("window.mark = 7")
	s.Write(t, "west/shop.yaml", serve.Shop("10.2.0.1", 8080, false))
	p.wait("the change", shows("#service-rows .meter", "1 / 2")+" && "+shows("table.endpoints .badge", "not ready"))
	s.Write(t, "north/shop.yaml", serve.Shop("10.3.0.1", 8080, true))
	p.wait("a third cluster", shows("#clusters h3", "north")+" && "+shows("table.endpoints", "10.3.0.1:8080")+" && "+shows("#service-rows .meter", "2 / 3"))
	if p.eval("window.mark") != "7" {
		t.Error("the page was loaded again")
	}
	p.wait("the focus to stay", "document.activeElement === "+toggle)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.wait("the endpoints to be closed", toggle+".getAttribute('aria-expanded') === 'false' && !document.querySelector('table.endpoints')")

	// Names are text.
	p.eval(`[...document.querySelectorAll('tr.service')].find((e) => e.innerText.includes('evil')).querySelector('button.toggle').click()`)
	p.wait("the hostile port", shows(".ports", hostile))
	p.wait("the hostile network and locality", shows("table.endpoints", "network "+hostile))
	p.wait("the hostile file name", shows("#clusters", `<img src=x onerror="window.pwned=1">.yaml`))
	if got := p.eval(`String(window.pwned) + document.querySelectorAll('main img, main script').length`); got != `"undefined0"` {
		t.Errorf("a name became markup: %s", got)
	}

	// Search, and one cluster.
	p.do(chromedp.SendKeys("#search", "nothing like this"))
	p.wait("that no service is found", shows("#services-none", "No service matches"))
	p.do(chromedp.SendKeys("#search", strings.Repeat(kb.Backspace, len("nothing like this"))+"car"))
	p.wait("the service that is found", shows("#services-count", "1")+" && "+shows("#service-rows", "cart")+" && !"+shows("#service-rows", "evil"))
	p.do(chromedp.SendKeys("#search", strings.Repeat(kb.Backspace, 3)))
	p.wait("all services again", shows("#services-count", "2"))
	p.click(`button[aria-label="Show only services in cluster east"]`)
	p.wait("the services of one cluster", shows("#services-count", "1")+" && "+shows("#filter", "in east"))
	p.click("#filter button")
	p.wait("those of all", shows("#services-count", "2"))

	if errors := p.noted(); len(errors) > 0 {
		t.Errorf("the console has %q", errors)
	}

	// The policy holds: a script that somebody got into the page does not run.
	p.eval(`{ const e = document.createElement("script"); e.textContent = "window.pwned = 2"; document.body.append(e); }`)
	if got := p.eval("String(window.pwned)"); got != `"undefined"` {
		t.Errorf("an inline script has run: %s", got)
	}

	// The server ends and comes back: so does the page.
	s.Kill()
	p.wait("the page to tell", shows("#live", "disconnected"))
	s.Write(t, "east/shop.yaml", serve.Shop("10.1.0.1", 8080, false))
	s.Start(t)
	p.wait("the page to be live again", shows("#live", "live")+" && "+shows("#service-rows .meter", "1 / 3"))
	if p.eval("window.mark") != "7" {
		t.Error("the page was loaded again")
	}
}
