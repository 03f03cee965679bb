package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fuzz reads what the fuzzer makes of the transcripts: nothing may break a reader, and where it is cut makes no difference.
func fuzz(f *testing.F, codec Codec, more ...[]byte) {
	for _, text := range more {
		f.Add(text, len(text))
	}
	for _, talk := range talks() {
		if talk.codec.name == codec.name {
			for _, size := range []int{1, 3, 16} {
				f.Add(talk.text, size)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 1 + max(size, -size-1)%64
		whole, cut := hear(t, codec, text, max(1, len(text))), hear(t, codec, text, size)
		if whole.Err != "" && cut.Err != "" { // how far a reader gets before it finds out that it cannot read may differ
			return
		}
		if diff := cmp.Diff(whole, cut); diff != "" {
			t.Errorf("by %d bytes (-whole +cut):\n%s", size, diff)
		}
	})
}

func FuzzRedis(f *testing.F)     { fuzz(f, Redis) }
func FuzzMySQL(f *testing.F)     { fuzz(f, MySQL) }
func FuzzHTTP(f *testing.F)      { fuzz(f, HTTP) }
func FuzzGRPC(f *testing.F)      { fuzz(f, GRPC) }
func FuzzZooKeeper(f *testing.F) { fuzz(f, ZooKeeper) }
func FuzzKafka(f *testing.F)     { fuzz(f, Kafka, untrueCounts()...) }
