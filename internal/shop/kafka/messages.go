package kafka

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/stock"
)

// What the replicas send each other through Kafka.

// request is the value of a record in the topic of requests. Its id is that of the order.
type request struct {
	Order       ledger.Order `json:"order"` // with its key, if the client gave one
	Fingerprint []byte       `json:"fingerprint"`
	Sold        wireTemplate `json:"sold"`
	Refused     wireTemplate `json:"refused"`
	Run         int64        `json:"run"`      // of the product: in another one the record is void
	ReplyTo     int32        `json:"reply_to"` // partition of the topic of answers

	partition int32 // of the topic of requests, where a probe goes
}

// probe says that it asks for nothing but an answer.
func (m request) probe() bool { return m.Order.ProductID == 0 && m.Order.Quantity == 0 }

// The widest values that the tables take: of the mode and the replica in characters, of an answer in bytes.
const (
	idLength          = 36
	fingerprintLength = 32
	mostName          = 64
	mostAnswer        = 1<<16 - 1
)

// check says why a request must not be executed, nil = it may. Others may produce requests, and values that no table
// takes would be tried over and over. now bounds the time of the request, which decides when it is void.
func (m request) check(now time.Time) error {
	o := m.Order
	var bad string
	switch {
	case len(o.ID) != idLength || uuid.Validate(o.ID) != nil:
		bad = "id of the order"
	case o.ProductID < 1:
		bad = "product_id"
	case o.Quantity < 1 || o.Quantity > stock.MaxQuantity:
		bad = "quantity"
	case m.Run < 1:
		bad = "run"
	case o.Fence != 0:
		bad = "fence"
	case o.CreatedMicros < 1 || o.CreatedAt().Sub(now) > Lifetime:
		bad = "created_us"
	case utf8.RuneCountInString(o.Mode) > mostName:
		bad = "mode"
	case utf8.RuneCountInString(o.Replica) > mostName:
		bad = "replica"
	case len(o.Key) > idempotency.MaxKey:
		bad = "key"
	case len(o.Key) > 0 && len(m.Fingerprint) != fingerprintLength:
		bad = "fingerprint"
	case len(o.Key) > 0 && !m.Sold.fits():
		bad = "answer to a sale"
	case len(o.Key) > 0 && !m.Refused.fits():
		bad = "answer to a refusal"
	default:
		return nil
	}
	return fmt.Errorf("kafka: a request with an invalid %s", bad)
}

// answer is the value of a record in the topic of answers.
type answer struct {
	ID       string              `json:"id"` // of the request
	Stored   *idempotency.Answer `json:"stored,omitempty"`
	Replayed bool                `json:"replayed,omitempty"`
	Refused  bool                `json:"refused,omitempty"`
	Count    int64               `json:"count"` // what is left, or was there where it is refused
	Error    string              `json:"error,omitempty"`
	Detail   string              `json:"detail,omitempty"`
}

// wireTemplate is a template whose pieces are any bytes, which a JSON string cannot hold.
type wireTemplate struct {
	Status int      `json:"status"`
	Pieces [][]byte `json:"pieces"`
}

func onWire(t idempotency.Template) wireTemplate {
	w := wireTemplate{Status: t.Status}
	for _, p := range t.Pieces {
		w.Pieces = append(w.Pieces, []byte(p))
	}
	return w
}

// fits says that every answer made of the template can be kept under a key.
func (w wireTemplate) fits() bool {
	size := 0
	for _, p := range w.Pieces {
		size += len(p) + len("-9223372036854775808")
	}
	return w.Status >= 100 && w.Status <= 999 && size <= mostAnswer
}

func (w wireTemplate) fill(n int64) idempotency.Answer {
	t := idempotency.Template{Status: w.Status}
	for _, p := range w.Pieces {
		t.Pieces = append(t.Pieces, string(p))
	}
	return t.Fill(n)
}

// errorWords are the errors that an answer may carry, by the word for them on the wire. Another delivery of the request
// would not change them.
var errorWords = map[string]error{
	"unknown_product": stock.ErrUnknownProduct, "segmented": stock.ErrSegmented, "key_reused": stock.ErrKeyReused,
	"held": stock.ErrReservationUnsupported, "limited": stock.ErrOtherWay,
}

// failure is the error that the answer to a request for a product carries, nil = none.
func (a answer) failure(product int64) error {
	if a.Error == "" {
		return nil
	}
	err := errorWords[a.Error]
	switch {
	case err == nil:
		err = stock.ErrUnknown
	case !errors.Is(err, stock.ErrKeyReused):
		err = &ledger.ProductError{Err: err, ProductID: product}
	}
	return fmt.Errorf("%w: by the consumer: %s", err, a.Detail)
}

// failed puts an error into an answer.
func (a *answer) failed(err error) {
	a.Error, a.Detail = "unknown", err.Error()
	for word, known := range errorWords {
		if errors.Is(err, known) {
			a.Error = word
		}
	}
}
