package redisdb

import (
	"fmt"
	"strconv"
)

// names are the keys of products, after a prefix; see [Store].
type names struct{ prefix string }

// CountKey is the key of a product's count. In a cluster all that belongs to the product is in its slot.
func (n names) CountKey(product int64) string { return n.key("stock", product) }

func (n names) key(family string, product int64) string {
	b := make([]byte, 0, 64) // on the stack: a sale has up to seven keys
	b = append(append(append(b, n.prefix...), family...), ":{"...)
	return string(append(strconv.AppendInt(b, product, 10), '}'))
}

func (n names) segmentKey(product int64, segment int) string {
	return fmt.Sprintf("%sstock:{%d#%d}", n.prefix, product, segment)
}

func (n names) claimKey(key []byte) string { return n.prefix + "key:" + string(key) }

// answerKeys returns the names of a product's hashes, in the order of the script's KEYS.
func (n names) answerKeys(product int64) []string {
	return []string{
		n.key("answers", product), n.key("answers-old", product), n.key("refusals", product), n.key("refusals-old", product),
	}
}

func (n names) segmentName(product int64, i int, split bool) string {
	if !split {
		return n.key("stock", product)
	}
	return n.segmentKey(product, i)
}
