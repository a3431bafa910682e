package debug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// csp lets the page load what this server gives it, and nothing else.
const csp = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard wraps all handlers: only reading, only under a name that is ours, and
// nothing that a browser may keep, embed or guess the type of.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD: nothing can be changed here", http.StatusMethodNotAllowed)
			return
		}
		if !s.hosts.Load().accept(r.Host) {
			http.Error(w, "this server does not answer for the host in the request; use the address that it listens on", http.StatusMisdirectedRequest)
			return
		}
		if r.ContentLength != 0 {
			h.Set("Connection", "close") // so that nobody waits for the rest of it
			http.Error(w, "a request has no body here", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hosts are the names under which the server may be asked. A page of another
// site that lets its own name point here (DNS rebinding) is turned away, because
// its requests still carry that name.
type hosts struct {
	names   map[string]bool
	literal bool // any IP address: nobody can make a name of one
}

func newHosts(configured string, listening net.Addr) *hosts {
	h := &hosts{names: map[string]bool{"localhost": true}}
	h.add(configured)
	if listening != nil {
		h.add(listening.String())
	}
	return h
}

func (h *hosts) add(address string) {
	host := hostname(address)
	if host == "" {
		return
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		h.literal = true
		return
	}
	h.names[host] = true
}

func (h *hosts) accept(hostport string) bool {
	host := hostname(hostport)
	if h.names[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (h.literal || ip.IsLoopback())
}

// hostname returns the host of HOST, HOST:PORT, [IPV6] or [IPV6]:PORT.
func hostname(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	} else {
		s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(s, "."))
}
