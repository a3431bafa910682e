package xds

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is one rendered resource. It is immutable and shared by all streams
// that send it.
type Resource struct {
	Name string
	// Hash is the version: a hash of the encoded bytes, so it is equal on every
	// replica of one release, and a release that renders differently differs.
	// It is never 0, absent or unsure.
	Hash uint64

	nobody  bool // the assignment of a name that no service has
	version string
	delta   []byte // field "resources" of a DeltaDiscoveryResponse
	any     []byte // the Any inside delta
	sotw    []byte // tag and length that make any a field of a DiscoveryResponse

	// The same as the transport takes them, made once.
	deltaBuffer, anyBuffer, sotwBuffer mem.Buffer
}

// Fields of the discovery messages, which are written by hand so that the bytes
// of a resource are shared by all responses that hold it.
const (
	fieldResponseVersion   = 1 // DiscoveryResponse.version_info, DeltaDiscoveryResponse.system_version_info
	fieldResponseResources = 2
	fieldResponseType      = 4
	fieldResponseNonce     = 5
	fieldSotwControlPlane  = 6
	fieldDeltaRemoved      = 6
	fieldDeltaControlPlane = 7

	fieldResourceVersion = 1
	fieldResourceAny     = 2
	fieldResourceName    = 3

	fieldAnyType  = 1
	fieldAnyValue = 2
)

// newResource wraps the encoded message body of type url.
func newResource(url, name string, body []byte) *Resource {
	h := xxhash.New()
	h.WriteString(url)
	h.Write(body)
	r := &Resource{Name: name, Hash: max(unsure+1, h.Sum64())}
	version := formatVersion(r.Hash)
	r.version = version

	anySize := sizeBytes(fieldAnyType, len(url)) + sizeBytes(fieldAnyValue, len(body))
	size := sizeBytes(fieldResourceVersion, len(version)) + sizeBytes(fieldResourceName, len(name)) + sizeBytes(fieldResourceAny, anySize)
	b := make([]byte, 0, sizeBytes(fieldResponseResources, size))
	b = appendHead(b, fieldResponseResources, size)
	b = appendText(b, fieldResourceVersion, version)
	b = appendText(b, fieldResourceName, name)
	b = appendHead(b, fieldResourceAny, anySize)
	head := len(b)
	b = appendText(b, fieldAnyType, url)
	b = appendHead(b, fieldAnyValue, len(body))
	b = append(b, body...)
	r.delta, r.any = b, b[head:]
	r.sotw = appendHead(nil, fieldResponseResources, anySize)
	r.deltaBuffer, r.anyBuffer, r.sotwBuffer = mem.SliceBuffer(r.delta), mem.SliceBuffer(r.any), mem.SliceBuffer(r.sotw)
	return r
}

// bytes returns what the resource takes in the cache.
func (r *Resource) bytes() int { return len(r.delta) + len(r.sotw) + len(r.Name) }

// Body returns the encoded message itself.
func (r *Resource) Body() []byte {
	b := r.any
	for len(b) > 0 {
		num, _, n := protowire.ConsumeTag(b)
		v, m := protowire.ConsumeBytes(b[n:])
		if num == fieldAnyValue {
			return v
		}
		b = b[n+m:]
	}
	return nil
}

func formatVersion(hash uint64) string { return strconv.FormatUint(hash, 16) }

// parseVersion returns 0, which no resource has, for what is not a version of
// ours.
func parseVersion(version string) uint64 {
	hash, err := strconv.ParseUint(version, 16, 64)
	if err != nil || hash <= unsure {
		return 0
	}
	return hash
}

func appendHead(b []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size))
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	return append(appendHead(b, field, len(s)), s...)
}

func sizeBytes(field protowire.Number, size int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(size)
}
