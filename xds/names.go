package xds

import (
	"strconv"
	"strings"
)

// Type URLs of the resources that are rendered.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// ShortType returns the usual abbreviation of a type URL, such as "CDS"; other
// types keep the last part of their name.
func ShortType(url string) string {
	switch url {
	case ClusterType:
		return "CDS"
	case EndpointType:
		return "EDS"
	case ListenerType:
		return "LDS"
	case RouteType:
		return "RDS"
	}
	return url[strings.LastIndexAny(url, "./")+1:]
}

// routeName returns the name of the routes of a port, as in Istio.
func routeName(port uint16) string { return strconv.Itoa(int(port)) }

// parseRouteName is the inverse of routeName.
func parseRouteName(name string) (port uint16, ok bool) {
	n, err := strconv.ParseUint(name, 10, 16)
	return uint16(n), err == nil && n > 0 && routeName(uint16(n)) == name
}

// clusterName returns the name of the cluster of a service port as Istio writes
// it: outbound|PORT|SUBSET|HOST.
func clusterName(port uint16, subset, host string) string {
	return "outbound|" + strconv.Itoa(int(port)) + "|" + subset + "|" + host
}

// parseClusterName is the inverse of clusterName.
func parseClusterName(name string) (port uint16, subset, host string, ok bool) {
	rest, ok := strings.CutPrefix(name, "outbound|")
	if !ok {
		return 0, "", "", false
	}
	number, rest, ok1 := strings.Cut(rest, "|")
	subset, host, ok2 := strings.Cut(rest, "|")
	n, err := strconv.ParseUint(number, 10, 16)
	return uint16(n), subset, host, ok1 && ok2 && err == nil && host != ""
}
