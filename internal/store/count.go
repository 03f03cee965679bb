package store

import (
	"fmt"
	"strconv"
	"strings"

	"lastitem/contract/ledger"
)

// In Redis and etcd the count of a product is a string. A count with a mark is refused by the modes that read it as a
// number, without a command more. limitedMark stands before the limit per buyer and the count: only sell.lua and
// hold*.lua keep to the limit. A limit of 0 stands before the count of a product of which units were held, until its
// stock is set: a mode that writes the count that it has computed would overwrite a release. If such a mode has read
// the count before the first hold, its write removes the mark, and hold*.lua end nothing any more.
const (
	SegmentedMark = "segmented:"
	limitedMark   = "limited:"
)

// ParseCount reads the count of a product that any mode may sell.
func ParseCount(v string, product int64) (int64, error) {
	switch sold, _ := Marked(v); sold {
	case ledger.InSegments:
		return 0, &ledger.ProductError{Err: ErrSegmented, ProductID: product}
	case ledger.Relatively:
		return 0, &ledger.ProductError{Err: ErrReservationUnsupported, ProductID: product}
	case ledger.PerBuyer:
		return 0, &ledger.ProductError{Err: ErrOtherWay, ProductID: product}
	}
	return Number(v, product)
}

// Number reads a count without a mark; the error is [ErrUnavailable].
func Number(count string, product int64) (int64, error) {
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: count of product %d is %q, not a number", ErrUnavailable, product, count)
	}
	return n, nil
}

// Limited marks a count with a limit per buyer.
func Limited(count string, perBuyer int64) string {
	return limitedMark + strconv.FormatInt(perBuyer, 10) + ":" + count
}

// Marked says how a product is sold by the mark of its count, and what comes after the mark: the count, or the number
// of segments.
func Marked(v string) (sold ledger.Sold, rest string) {
	if n, ok := strings.CutPrefix(v, SegmentedMark); ok {
		return ledger.InSegments, n
	}
	rest, ok := strings.CutPrefix(v, limitedMark)
	if !ok {
		return ledger.Undecided, v
	}
	limit, count, _ := strings.Cut(rest, ":")
	if limit == "0" {
		return ledger.Relatively, count
	}
	return ledger.PerBuyer, count
}
