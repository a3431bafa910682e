package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// AddAddress adds an IP address to the loopback interface of the namespace. An
// address that is there already is fine.
func AddAddress(ip string) error {
	err := changeAddress(ip, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("adding address %s: %w", ip, err)
	}
	return nil
}

// RemoveAddress removes an address that AddAddress added. What listens there
// goes on and is reached no more: connections to the address fail at once, for
// there is no route.
func RemoveAddress(ip string) error {
	if err := changeAddress(ip, unix.RTM_DELADDR, 0); err != nil {
		return fmt.Errorf("removing address %s: %w", ip, err)
	}
	return nil
}

// loopbackUp sets the loopback interface up, which gives it 127.0.0.1.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	return nil
}

// changeAddress has the kernel add or remove an address, by one netlink
// message: a header, an ifaddrmsg, and the address as local address and as
// that of the interface.
func changeAddress(ip string, kind, flags uint16) error {
	if !Inside() && os.Getenv(roleVariable) != roleInit {
		return errors.New("outside of namespaces that Enter made")
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return err
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	family := byte(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	order := binary.NativeEndian
	message := make([]byte, unix.SizeofNlMsghdr, 128)
	// Without NODAD an IPv6 address cannot be used for a second.
	message = append(message, family, byte(addr.BitLen()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE)
	message = order.AppendUint32(message, uint32(lo.Index))
	for _, attribute := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		message = order.AppendUint16(message, uint16(unix.SizeofRtAttr+addr.BitLen()/8))
		message = order.AppendUint16(message, attribute)
		message = append(message, addr.AsSlice()...)
	}
	order.PutUint32(message[0:], uint32(len(message)))
	order.PutUint16(message[4:], kind)
	order.PutUint16(message[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	order.PutUint32(message[8:], 1) // sequence
	return tellKernel(message)
}

// tellKernel sends a netlink message and returns the error that the kernel
// answers with, if any.
func tellKernel(message []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	replies, err := syscall.ParseNetlinkMessage(answer[:n])
	if err != nil || len(replies) != 1 || replies[0].Header.Type != unix.NLMSG_ERROR || len(replies[0].Data) < 4 {
		return fmt.Errorf("netlink: the kernel's answer is no acknowledgement (%v)", err)
	}
	if code := int32(binary.NativeEndian.Uint32(replies[0].Data)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
