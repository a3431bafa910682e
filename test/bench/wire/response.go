package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of DiscoveryResponse and DeltaDiscoveryResponse, which have the same
// numbers where both have them, and of what they hold.
const (
	responseVersion   = 1
	responseResources = 2
	responseType      = 4
	responseNonce     = 5

	resourceVersion = 1
	resourceAny     = 2
	resourceName    = 3

	anyValue       = 2
	assignmentName = 1
)

// Head is the part of a response that is not its resources.
type Head struct {
	Type, Nonce, Version []byte
}

// Resource is one resource of a response. In the state-of-the-world variant it
// has no version, and its name is the first field of the body: true for
// assignments and for clusters that are named first.
type Resource struct {
	Name, Version, Body []byte
}

// Response reads a response of either variant without copying: it returns the
// head and calls each, if it is not nil, for every resource.
func Response(b []byte, delta bool, each func(Head, Resource)) (Head, error) {
	var h Head
	err := fields(b, func(field protowire.Number, v []byte) error {
		switch field {
		case responseType:
			h.Type = v
		case responseNonce:
			h.Nonce = v
		case responseVersion:
			h.Version = v
		}
		return nil
	})
	if err != nil || each == nil {
		return h, err
	}
	return h, fields(b, func(field protowire.Number, v []byte) error {
		if field != responseResources {
			return nil
		}
		var r Resource
		var err error
		if delta {
			r, err = deltaResource(v)
		} else {
			r, err = sotwResource(v)
		}
		if err != nil {
			return err
		}
		each(h, r)
		return nil
	})
}

func deltaResource(b []byte) (r Resource, err error) {
	err = fields(b, func(field protowire.Number, v []byte) (err error) {
		switch field {
		case resourceName:
			r.Name = v
		case resourceVersion:
			r.Version = v
		case resourceAny:
			r.Body, err = bytesField(v, anyValue)
		}
		return err
	})
	return r, err
}

func sotwResource(b []byte) (r Resource, err error) {
	if r.Body, err = bytesField(b, anyValue); err != nil {
		return r, err
	}
	r.Name, err = bytesField(r.Body, assignmentName)
	return r, err
}

// bytesField returns the first occurrence of a field.
func bytesField(b []byte, want protowire.Number) (found []byte, err error) {
	err = fields(b, func(field protowire.Number, v []byte) error {
		if field == want {
			found = v
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

var errFound = errors.New("found")

// fields calls f for every field of a message that holds bytes.
func fields(b []byte, f func(field protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("reading a response: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if kind == protowire.BytesType {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return fmt.Errorf("reading a response: %w", protowire.ParseError(n))
			}
			if err := f(field, v); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return fmt.Errorf("reading a response: %w", protowire.ParseError(n))
		}
		b = b[n:]
	}
	return nil
}
