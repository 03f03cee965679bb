package wire

import (
	"encoding/binary"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// In Kafka's flexible versions, each structure ends with tagged fields. kmsg does not check how many a message
// announces: a wrong number makes it loop up to 2^32 times. Therefore a message is checked against its shape before
// kmsg decodes it.
//
// A shape is the fields in their order: h, i, q are integers of 2, 4 and 8 bytes, b is one byte, u an id of 16, s a
// string or bytes with the length before them, [...] an array with the number of its elements before them, and t are
// tagged fields. After t, the shapes of the fields with the tags 0, 1, 2 and so on may stand in parentheses; other
// tagged fields may hold anything.

// kafkaShape returns the shape of a message in a flexible version, of those that are read at all.
func kafkaShape(m kafkaMessage) string {
	version := m.GetVersion()
	since := func(first int16, then, before string) string {
		if version >= first {
			return then
		}
		return before
	}
	switch m.(type) {
	case *kmsg.ProduceRequest:
		return "shi[" + since(13, "u", "s") + "[ist]t]t"
	case *kmsg.FetchResponse:
		return "ihi[" + since(13, "u", "s") + "[ihqqq[qqt]ist(iqt,iit,qit)]t]t([isist])"
	case *kmsg.OffsetCommitRequest:
		return "siss[" + since(10, "u", "s") + "[iqist]t]t"
	case *kmsg.MetadataResponse:
		operations := "i"
		if version > 10 {
			operations = ""
		}
		return "i[isist]si[hs" + since(10, "u", "") + "b[hiii[i][i][i]t]it]" + operations + since(13, "h", "") + "t"
	case *kmsg.CreateTopicsResponse:
		return "i[s" + since(7, "u", "") + "hsih[ssbbbt]t]t"
	}
	return ""
}

// kafkaFits says whether a message has a shape, to its last byte.
func kafkaFits(message []byte, shape string) bool {
	r := shapeReader{rest: message}
	r.read(shape)
	return !r.bad && len(r.rest) == 0
}

// shapeReader goes through a message by its shape.
type shapeReader struct {
	rest []byte
	bad  bool // the message does not have the shape
}

// sizes are the sizes of the fields that have a fixed one.
var sizes = map[byte]uint64{'b': 1, 'h': 2, 'i': 4, 'q': 8, 'u': 16}

func (r *shapeReader) read(shape string) {
	for shape != "" && !r.bad {
		kind := shape[0]
		shape = shape[1:]
		switch kind {
		case '[':
			var element string
			element, shape = inner(shape, '[', ']')
			for n := r.length(); n > 0 && !r.bad; n-- {
				r.read(element)
			}
		case 's':
			r.skip(r.length())
		case 't':
			var known []string
			if tags, ok := strings.CutPrefix(shape, "("); ok {
				tags, shape = inner(tags, '(', ')')
				known = strings.Split(tags, ",")
			}
			r.tags(known)
		default:
			r.skip(sizes[kind])
		}
	}
}

// tags reads tagged fields, the first of which have the known shapes.
func (r *shapeReader) tags(known []string) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag, size := r.uvarint(), r.uvarint()
		value := r.skip(size)
		if tag < uint64(len(known)) && !r.bad {
			r.bad = !kafkaFits(value, known[tag])
		}
	}
}

// length reads the length of a string or an array, which stands there increased by one; 0 is null.
func (r *shapeReader) length() uint64 {
	n := r.uvarint()
	return max(n, 1) - 1
}

// uvarint reads a number of at most 32 bits.
func (r *shapeReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > binary.MaxVarintLen32 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// skip goes on by n bytes, and returns them.
func (r *shapeReader) skip(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	skipped := r.rest[:n]
	r.rest = r.rest[n:]
	return skipped
}

// inner splits a shape after an opening bracket at the closing one.
func inner(shape string, opening, closing byte) (in, after string) {
	depth := 1
	for i := range len(shape) {
		switch shape[i] {
		case opening:
			depth++
		case closing:
			depth--
		}
		if depth == 0 {
			return shape[:i], shape[i+1:]
		}
	}
	return shape, ""
}
