package wire

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
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
	b := kbin.Reader{Src: message}
	return readShape(&b, shape) && len(b.Src) == 0
}

// shapeSizes are the sizes of the fields that have a fixed one.
var shapeSizes = map[byte]int{'b': 1, 'h': 2, 'i': 4, 'q': 8, 'u': 16}

// readShape goes on by one shape, and says whether the message has it.
func readShape(b *kbin.Reader, shape string) bool {
	for shape != "" && b.Ok() {
		kind := shape[0]
		shape = shape[1:]
		switch kind {
		case '[':
			var element string
			element, shape = inner(shape, '[', ']')
			for n := b.CompactArrayLen(); n > 0; n-- {
				if !readShape(b, element) {
					return false
				}
			}
		case 's':
			b.CompactNullableBytes()
		case 't':
			var known []string
			if tags, ok := strings.CutPrefix(shape, "("); ok {
				tags, shape = inner(tags, '(', ')')
				known = strings.Split(tags, ",")
			}
			if !readTags(b, known) {
				return false
			}
		default:
			b.Span(shapeSizes[kind])
		}
	}
	return b.Ok()
}

// readTags reads tagged fields, the first of which have the known shapes.
func readTags(b *kbin.Reader, known []string) bool {
	for n := b.Uvarint(); n > 0; n-- {
		tag, size := b.Uvarint(), b.Uvarint()
		value := b.Span(int(size))
		if !b.Ok() || tag < uint32(len(known)) && !kafkaFits(value, known[tag]) {
			return false
		}
	}
	return b.Ok()
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
