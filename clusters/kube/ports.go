package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tributary/model"
)

// protocolOf tells what a service port speaks, by Istio's rules: UDP and SCTP
// by the Kubernetes protocol, else by appProtocol if there is one, else by the
// name of the port up to the first '-'. What neither tells is Unknown, so that
// proxies may sniff it, except on ports whose servers usually speak first:
// sniffing would wait there for bytes that the client never sends.
func protocolOf(number int32, name string, transport corev1.Protocol, appProtocol *string) model.Protocol {
	switch transport {
	case corev1.ProtocolUDP:
		return model.UDP
	case corev1.ProtocolSCTP:
		return model.SCTP
	}
	hint := name
	if appProtocol != nil {
		hint = *appProtocol
		switch hint {
		case "kubernetes.io/h2c":
			return model.HTTP2
		case "kubernetes.io/ws":
			return model.HTTP
		case "kubernetes.io/wss":
			return model.HTTPS
		}
	}
	hint = strings.ToLower(hint)
	if strings.HasPrefix(hint, "grpc-web") {
		return model.GRPCWeb
	}
	hint, _, _ = strings.Cut(hint, "-")
	if p, ok := protocolHints[hint]; ok {
		return p
	}
	if serverFirstPorts[number] {
		return model.TCP
	}
	return model.Unknown
}

var protocolHints = map[string]model.Protocol{
	"http":  model.HTTP,
	"http2": model.HTTP2,
	"grpc":  model.GRPC,
	"https": model.HTTPS,
	"tls":   model.TLS,
	"tcp":   model.TCP,
	"udp":   model.UDP,
	"mongo": model.Mongo,
	"mysql": model.MySQL,
	"redis": model.Redis,
}

// serverFirstPorts are SMTP, DNS over TCP, MySQL and MongoDB, the list of Istio.
var serverFirstPorts = map[int32]bool{25: true, 53: true, 3306: true, 27017: true}

// portNumber narrows a port number of the API; ok is false if it is none.
func portNumber(n int32) (number uint16, ok bool) {
	return uint16(n), n > 0 && n <= 65535
}
