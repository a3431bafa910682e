package model

import (
	"bytes"
	"net/netip"
)

// Addr is an IP address without a zone: IPv4 in its IPv6-mapped form, as
// netip.Addr.As16 gives it. Unlike netip.Addr it holds no pointer, which keeps
// a million endpoint rows cheap for the garbage collector. The zero value
// means "no address".
type Addr [16]byte

// ParseAddr parses an IPv4 or IPv6 address; ok is false for anything else,
// including an address with a zone.
func ParseAddr(s string) (a Addr, ok bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return Addr{}, false
	}
	return Addr(ip.As16()), true
}

// Netip returns the address in the standard library's form, IPv4 unmapped.
func (a Addr) Netip() netip.Addr { return netip.AddrFrom16(a).Unmap() }

// Is4 reports whether it is an IPv4 address.
func (a Addr) Is4() bool { return [12]byte(a[:12]) == [12]byte{10: 0xff, 11: 0xff} }

// IsZero reports whether there is no address.
func (a Addr) IsZero() bool { return a == Addr{} }

// String returns the usual text form; "" for no address.
func (a Addr) String() string {
	if a.IsZero() {
		return ""
	}
	return a.Netip().String()
}

// AppendTo appends the text form to b.
func (a Addr) AppendTo(b []byte) []byte {
	if a.IsZero() {
		return b
	}
	return a.Netip().AppendTo(b)
}

// Compare orders addresses by their bytes.
func (a Addr) Compare(o Addr) int { return bytes.Compare(a[:], o[:]) }
