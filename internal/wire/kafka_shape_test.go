package wire

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// filled sets every field of a message, two elements in each array, and adds a tagged field that nobody knows.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			tags.Set(1000, []byte("tag"))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				filled(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			filled(v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	}
}

// kafkaMessages are the kinds that are read.
func kafkaMessages() []kafkaMessage {
	return []kafkaMessage{
		kmsg.NewPtrProduceRequest(), kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrFetchResponse(), kmsg.NewPtrMetadataResponse(), kmsg.NewPtrCreateTopicsResponse(),
	}
}

// The shapes are those of kmsg, in all flexible versions: a message with everything in it is read back as it was, and none of it may be missing.
func TestKafkaShapes(t *testing.T) {
	t.Parallel()
	for _, m := range kafkaMessages() {
		versions := 0
		for version := range m.(interface{ MaxVersion() int16 }).MaxVersion() + 1 {
			m.(interface{ SetVersion(int16) }).SetVersion(version)
			if !m.IsFlexible() {
				continue
			}
			versions++
			filled(reflect.ValueOf(m).Elem())
			body := m.(interface{ AppendTo([]byte) []byte }).AppendTo([]byte{0}) // no tagged fields in the header
			read := reflect.New(reflect.TypeOf(m).Elem()).Interface().(kafkaMessage)
			read.(interface{ SetVersion(int16) }).SetVersion(version)
			if !kafkaRead(read, body) {
				t.Errorf("%T, version %d: not read", m, version)
				continue
			}
			again := read.(interface{ AppendTo([]byte) []byte }).AppendTo([]byte{0})
			if diff := cmp.Diff(body, again, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%T, version %d: read as another message (-want +got):\n%s", m, version, diff)
			}
			for n := range body {
				if kafkaRead(read, body[:n]) {
					t.Errorf("%T, version %d: read without its last %d bytes", m, version, len(body)-n)
				}
			}
		}
		if versions == 0 {
			t.Errorf("%T has no flexible version", m)
		}
	}
}

// untrueCounts are transcripts in which a message of each kind ends with a count of 2^32-1 tagged fields.
func untrueCounts() (all [][]byte) {
	untrue := func(message string) string { return message[:len(message)-1] + "\xff\xff\xff\xff\x0f" }
	metadata, fetch, create := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrCreateTopicsRequest()
	for _, r := range []kmsg.Request{metadata, fetch, create} {
		r.SetVersion(r.MaxVersion())
		all = append(all, transcript(client(kafkaAsks(1, r)), server(framed(untrue(kafkaAnswers(1, r.ResponseKind())[4:])))))
	}
	for _, r := range []kmsg.Request{kmsg.NewPtrProduceRequest(), kmsg.NewPtrOffsetCommitRequest()} {
		r.SetVersion(r.MaxVersion())
		all = append(all, transcript(client(framed(untrue(kafkaAsks(1, r)[4:])))))
	}
	return all
}

// A count of tagged fields that is not true costs no time. kmsg alone counts it down, which takes a minute.
func TestKafkaUntrueCounts(t *testing.T) {
	t.Parallel()
	for i, text := range untrueCounts() {
		done := make(chan heard, 1)
		go func() { done <- hear(t, Kafka, text, len(text)) }()
		select {
		case h := <-done:
			if h.Err != "" || len(h.Messages) == 0 {
				t.Errorf("transcript %d: %+v, want the name of the request", i, h)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("transcript %d is still being read after 10 s", i)
		}
	}
}
