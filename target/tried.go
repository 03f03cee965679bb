package target

import (
	"regexp"
	"strings"

	"lastitem/say/text"
)

// tried is what the purchase before a run has shown of a product.
type tried struct {
	order    row      // the row that it wrote; nil = orders cannot be read
	ids      []string // of orders that the run does not count; without resets they stay
	counts   bool     // the total of the list of orders counts its rows
	quantity bool     // the row says how many units it is about
	sold     Reply    // the answer
}

// The names under which a row says whose product it is of, and what became of it.
var (
	productNames = []string{"product_id", "productid", "product", "sku", "item_id", "itemid", "variant_id", "variantid",
		"goods_id", "goodsid"}
	stateNames = []string{"status", "state", "order_status", "orderstatus", "order_state"}
	endedNames = []string{"cancelled", "canceled", "cancelled_at", "canceled_at", "refunded_at", "voided_at", "deleted_at"}
	ended      = regexp.MustCompile(`(?i)cancel|refund|void|reject|fail|expire|取消|退款|作废|失败`)
)

// fits returns an error if a row cannot be an order of the product that stands: it is of another product than the row
// that was tried, or it was cancelled.
func (t tried) fits(o row) error {
	for _, name := range productNames {
		if want, known := t.order[name]; known && o[name] != want {
			return unfit(text.Of("--orders-...: the row %s is of another product, by its %s, which was %s: give the orders "+
				"of {{product}} only"), o, name, want)
		}
	}
	for _, name := range stateNames {
		if ended.MatchString(o[name]) {
			return unfit(text.Of("--orders-...: the row %s does not stand any more: leave such rows out"), o)
		}
	}
	for _, name := range endedNames {
		if v := strings.ToLower(o[name]); v != "" && v != "false" && v != "0" && v != "null" {
			return unfit(text.Of("--orders-...: the row %s does not stand any more: leave such rows out"), o)
		}
	}
	return nil
}
