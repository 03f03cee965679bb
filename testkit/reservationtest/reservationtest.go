// Package reservationtest is the life of a reservation in one table of sentences, each with what must come of it, and
// their player. [Play] plays it on a [Seam]: a store that keeps reservations, or the service before it. After each
// sentence the judge must find the books right.
//
// The part of a name before a '/' is the buyer. The name is the idempotency key, unless it has a '-', and so may be the
// same text as a payment. The order of payment p is op, that of a sale has the sale's name. A hold is for a minute, or
// for the time at its end; an extension may have a key there.
package reservationtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lastitem/contract/ledger"
)

// rows are the rules. Each begins with five units of a product. Those of one store are a difference on purpose.
var rows = []struct {
	rule      string
	store     string // "" = each
	rules     ledger.Rules
	sentences string
}{
	{"one payment buys it, and every other goes back", "", ledger.Rules{}, `hold a 2 = held 3; hold b 4 = sold_out 3
		read a = held; confirm a p = confirmed op; confirm a p = confirmed op replay; confirm a q = confirmed refund
		confirm a q = confirmed refund; cancel a = confirmed; extend a 1h = confirmed; read a = confirmed`},
	{"a key makes one reservation, whatever became of it", "", ledger.Rules{}, `hold a 2 = held 3
		again a 2 = held 3 replay; again a 3 = idempotency_key_reused; confirm a p = confirmed op; again a 2 = held 3 replay
		brief b 1 = held 2; late b = ; sweep = 1; hold c 1 = held 2; brief-again b 1 = held 2 replay; read b = expired
		hold d 2 = held 0; cancel-part d 1 k = held 1; hold e 1 = held 0; again d 2 = held 0 replay`},
	{"a payment is no key", "", ledger.Rules{}, `sell s 1 = sold 4; hold a 1 = held 3; confirm a s = confirmed os
		hold b 1 = held 2; confirm b b = confirmed ob; confirm b s = idempotency_key_reused`},
	{"a cancel gives the units back, once", "", ledger.Rules{}, `hold a 2 = held 3; cancel a = cancelled
		cancel a = cancelled; extend a 1h = cancelled; confirm a p = cancelled refund; confirm a p = cancelled refund
		hold b 5 = held 0; confirm b p = idempotency_key_reused; confirm b q = confirmed oq`},
	{"a payment for what is not there goes back, for good", "", ledger.Rules{}, `read none = unknown_reservation
		cancel none = unknown_reservation; extend none 1h = unknown_reservation; confirm none p = unknown_reservation refund
		confirm none p = unknown_reservation refund; hold a 1 = held 4; confirm a p = idempotency_key_reused
		confirm a q = confirmed oq; confirm none q = idempotency_key_reused`},
	{"a sweep ends what is overdue, once", "", ledger.Rules{}, `brief a 2 = held 3; hold b 1 = held 2; late a =
		hold c 3 = sold_out 2; sweep = 1; read a = expired; sweep = 0; confirm a p = expired refund
		confirm a p = expired refund; cancel a = expired; hold c 4 = held 0; read b = held`},
	{"a late cancel finds it expired", "", ledger.Rules{}, `brief a 2 = held 3; late a = ; cancel a = expired
		cancel a = expired; sweep = 0; hold b 5 = held 0`},
	{"a late extension finds it expired", "", ledger.Rules{}, `brief a 2 = held 3; late a = ; extend a 1h = expired
		extend a 1h = expired; sweep = 0; hold b 5 = held 0`},
	{"a late payment goes back", "", ledger.Rules{}, `brief a 2 = held 3; late a = ; confirm a p = expired refund
		sweep = 0; hold b 5 = held 0`},
	{"with rehold a late payment gets the units", "", ledger.Rules{Late: ledger.LateRehold}, `brief a 3 = held 2; late a =
		confirm a p = confirmed op; brief b 2 = held 0; late b = ; sweep = 1; confirm b q = confirmed oq
		confirm b q = confirmed oq replay; sweep = 0`},
	{"with rehold a late payment goes back if they are gone", "", ledger.Rules{Late: ledger.LateRehold}, `
		brief a 3 = held 2; late a = ; sweep = 1; hold b 3 = held 2; confirm a p = expired refund; cancel b = cancelled
		confirm a p = expired refund; confirm a q = confirmed oq`},
	{"a cancel wins over a late payment", "", ledger.Rules{Late: ledger.LateRehold}, `brief a 1 = held 4; late a =
		cancel a = expired; confirm a p = expired refund; brief b 1 = held 4; late b = ; sweep = 1; cancel b = expired
		confirm b q = expired refund; brief c 2 = held 3; late c = ; cancel-part c 1 k = expired 2
		confirm c r = expired refund`},
	{"what was told stays", "", ledger.Rules{}, `brief a 1 = held 4; late a = ; read a = expired; reset =
		read a = expired`},
	{"an extension counts from now, once, and shortens nothing", "", ledger.Rules{}, `hold a 1 = held 4
		extend a 30m = held by 30m0s; extend a 1h = held by 30m0s; confirm a p = confirmed op; hold b 1 = held 3
		extend b 1s = held by 1m0s; sweep = 0; read b = held`},
	{"a product says how long units are held, and how often that is extended", "", ledger.Rules{MaxHold: 2 * time.Hour,
		Extends: 2}, `hold a 1 3h = invalid_request; hold a 1 2h = held 4; extend a 90m = idempotency_key_missing
		extend a 3h k = invalid_request; extend a 115m k = held by 2h0m0s; extend a 2h l = held by 2h0m0s
		extend a 1h k = held by 2h0m0s replay; extend a 1h m = held by 2h0m0s; confirm a p = confirmed op
		extend a 2h k = confirmed; hold b 1 = held 3; extend b 1h k = held by 1h0m0s; extend b 2h l = held by 2h0m0s
		extend b 90m k = held by 1h0m0s replay; extend b 2h m = held by 2h0m0s; cancel b = cancelled`},
	{"without a time units are held for as long as the product allows", "", ledger.Rules{MaxHold: 100 * time.Millisecond},
		`hold a 1 0s = held 4; late a = ; sweep = 1; read a = expired`},
	{"a new run voids what is held", "", ledger.Rules{}, `hold a 2 = held 3; hold b 1 = held 2; confirm b p = confirmed op
		brief c 1 = held 1; late c = ; reset = ; read c = void; read a = void; sweep = 0; confirm a q = void refund
		confirm a q = void refund; cancel a = void; extend a 1h = void; confirm b p = confirmed op replay
		cancel b = confirmed; confirm b r = confirmed refund; restock op = unknown_order; hold d 5 = held 0
		cancel d = cancelled`},
	{"the run before the last is forgotten, its payments are not", "redis", ledger.Rules{}, `hold a 2 = held 3
		hold b 1 = held 2; confirm b p = confirmed op; reset = ; hold d 5 = held 0; reset = ; read d = void
		read a = unknown_reservation; confirm a r = unknown_reservation refund; confirm b p = confirmed op replay`},
	{"an order comes back once, as the first time", "", ledger.Rules{}, `hold a 2 = held 3; confirm a p = confirmed op
		restock op = 2 true; write-off op = 2 true; hold b 1 = held 4; confirm b q = confirmed oq; write-off oq = 1 false
		restock oq = 1 false; restock none = unknown_order; confirm a p = confirmed op replay; hold c 4 = held 0`},
	{"a sale comes back like an order", "", ledger.Rules{}, `sell s 1 = sold 4; hold a 4 = held 0; sell t 1 = sold_out 0
		restock s = 1 true; restock s = 1 true; sell u 1 = sold 0; write-off u = 1 false; hold b 1 = sold_out 0`},
	{"a part that is cancelled comes back once, and the rest stays held", "", ledger.Rules{}, `hold a 3 = held 2
		cancel-part a 1 = idempotency_key_missing; cancel-part a 1 k = held 2; cancel-part a 1 k = held 2 replay
		cancel-part a 2 k = idempotency_key_reused; cancel-part a 3 l = invalid_request
		hold b 3 = held 0; confirm a p = confirmed op; cancel-part a 1 k = confirmed 2 replay
		cancel-part a 1 l = confirmed; cancel-part b 2 m = held 1; cancel-part b 1 n = cancelled 1
		cancel-part b 1 n = cancelled 1 replay; hold c 3 = held 0; cancel-part c 1 k = held 2; cancel c = cancelled
		hold d 3 = held 0; restock op = 2 true; hold e 2 = held 0`},
	{"a late payment buys what the parts have left", "", ledger.Rules{Late: ledger.LateRehold}, `hold a 3 500ms = held 2
		cancel-part a 2 k = held 1; late a = ; cancel-part a 2 k = expired 1 replay; hold b 4 = held 1
		confirm a p = confirmed op; sell s 1 = sold_out 0; cancel b = cancelled; restock op = 1 true; hold c 5 = held 0`},
	{"a part of an order comes back once", "", ledger.Rules{}, `hold a 5 = held 0; confirm a p = confirmed op
		restock op 1 = idempotency_key_missing; restock op 1 k = 1 true; restock op 1 k = 1 true; hold b 2 = sold_out 1
		restock op 2 k = idempotency_key_reused; write-off op 1 k = idempotency_key_reused; write-off op 2 l = 2 false
		restock op 3 m = invalid_request; hold b 1 = held 0; restock op = 2 true; restock op = 2 true; write-off op = 2 true
		restock op 1 m = invalid_request; write-off op 2 l = 2 false; hold c 2 = held 0; sell s 1 = sold_out 0
		confirm c q = confirmed oq; restock oq 1 k = 1 true; restock oq 1 l = 1 true; restock oq = 0 true
		sell t 2 = sold 0; restock t 1 k = 1 true; write-off t = 1 false; restock t 1 k = 1 true; hold d 1 = held 0`},
	{"a limit gets the parts back", "", ledger.Rules{PerBuyer: 3}, `hold x/1 3 = held 2; cancel-part x/1 1 k = held 2
		hold x/2 2 = limit_reached 3; hold x/2 1 = held 2; cancel x/2 = cancelled; confirm x/1 p = confirmed op
		write-off op 1 k = 1 false; hold x/3 3 = limit_reached 3; hold x/3 2 = held 1; restock op 1 l = 1 true
		hold x/4 1 = held 1; cancel-part x/3 1 k = held 1; hold x/5 1 = held 1; hold x/6 1 = limit_reached 3`},
	{"a limit counts what a buyer holds and has bought", "", ledger.Rules{PerBuyer: 2}, `hold x/1 1 = held 4
		hold x/2 1 = held 3; hold x/3 1 = limit_reached 2; hold y/1 2 = held 1; confirm x/1 p = confirmed op
		hold x/4 1 = limit_reached 2; cancel x/2 = cancelled; hold x/5 2 = limit_reached 2; hold x/5 1 = held 1
		restock op = 1 true; brief x/7 1 = held 1; late x/7 = ; hold x/8 1 = limit_reached 2; sweep = 1; hold x/8 1 = held 1
		confirm x/8 q = confirmed oq; hold x/9 1 = limit_reached 2; write-off oq = 1 false; hold x/9 1 = held 0`},
	{"a limit refuses a late payment", "", ledger.Rules{PerBuyer: 1, Late: ledger.LateRehold}, `brief x/1 1 = held 4
		late x/1 = ; sweep = 1; hold x/2 1 = held 4; confirm x/1 p = expired refund; cancel x/2 = cancelled
		confirm x/1 q = confirmed oq`},
	{"a limit counts holds and sales together", "", ledger.Rules{PerBuyer: 2}, `hold a/1 1 = held 4
		hold a/2 2 = limit_reached 2; sell a/3 2 = limit_reached 2; sell a/4 1 = sold 3; sell a/5 1 = limit_reached 2
		hold a/6 1 = limit_reached 2; cancel a/1 = cancelled; sell a/7 1 = sold 3; sell a/8 1 = limit_reached 2`},
	{"a limit counts sales and what came back, for those who are known", "", ledger.Rules{PerBuyer: 2}, `
		sell bob/1 2 = sold 3; sell bob/2 1 = limit_reached 2; restock bob/1 = 2 true; sell bob/2 3 = limit_reached 2
		sell bob/3 2 = sold 3; sell bob/4 1 = limit_reached 2; sell /nobody 2 = sold 1; sell cid/1 2 = sold_out 1
		sell cid/2 1 = sold 0; write-off cid/2 = 1 false; sell cid/3 2 = sold_out 0`},
	{"absolute counts and reservations exclude each other", "", ledger.Rules{}, `overwrite s 1 = sold 4
		hold a 1 = hold_unsupported; restock s = return_unsupported; reset = ; hold a 1 = held 4
		overwrite t 1 = hold_unsupported; sell u 1 = sold 3; cancel a = cancelled; overwrite t 1 = hold_unsupported; reset =
		overwrite t 1 = sold 4`},
	{"an adjustment moves the stock, once for each key", "", ledger.Rules{}, `hold a 2 = held 3; adjust k 4 = adjusted +4
		adjust k 4 = adjusted +4 replay; adjust k 5 = idempotency_key_reused; hold b 7 = held 0; adjust l -1 = sold_out 0
		cancel b = cancelled; adjust l -1 = adjusted -1; confirm a p = confirmed op; adjust m -7 = sold_out 6
		adjust m -6 = adjusted -6; hold c 1 = sold_out 0; restock op = 2 true; hold c 2 = held 0; adjust n 1 = adjusted +1
		read a = confirmed; cancel c = cancelled; hold d 3 = held 0`},
	{"a new run knows no adjustment", "", ledger.Rules{}, `adjust k 4 = adjusted +4; reset = ; adjust k 5 = adjusted +5
		adjust k 5 = adjusted +5 replay; hold d 10 = held 0`},
	{"an adjustment leaves the limit as it is", "", ledger.Rules{PerBuyer: 3}, `hold x/1 3 = held 2
		adjust k 2 = adjusted +2; hold x/2 1 = limit_reached 3; hold y/1 3 = held 1; adjust l -1 = adjusted -1
		brief z/1 1 = sold_out 0; cancel y/1 = cancelled; hold z/2 3 = held 0`},
	{"sales and adjustments share a count", "", ledger.Rules{}, `sell s 4 = sold 1; adjust k 2 = adjusted +2
		sell t 3 = sold 0; adjust l -1 = sold_out 0; adjust m 1 = adjusted +1; sell u 1 = sold 0; restock s = 4 true
		adjust n -4 = adjusted -4; sell v 1 = sold_out 0`},
	{"adjustments, parts and extensions leave each other alone, also under one key", "", ledger.Rules{Extends: 2,
		MaxHold: 2 * time.Hour, PerBuyer: 4}, `hold a 4 = held 1; adjust k 2 = adjusted +2; cancel-part a 1 k = held 3
		adjust l -5 = sold_out 4; adjust l -4 = adjusted -4; extend a 90m k = held by 1h30m0s; cancel-part a 1 m = held 2
		hold b 2 = sold_out 1; hold b 1 = held 0; extend a 2h l = held by 2h0m0s; adjust m 1 = adjusted +1
		extend a 1h k = held by 1h30m0s replay; extend a 2h m = held by 2h0m0s; cancel-part a 1 k = held 2 replay
		confirm a p = confirmed op; restock op 1 k = 1 true; adjust n -2 = adjusted -2; adjust k 2 = adjusted +2 replay
		write-off op 1 l = 1 false; cancel b = cancelled; hold c 1 = held 0`},
	{"a late payment buys what parts and adjustments have left", "", ledger.Rules{Late: ledger.LateRehold}, `
		hold a 3 500ms = held 2; cancel-part a 1 k = held 2; adjust k -2 = adjusted -2; late a = ; sweep = 1
		adjust l -2 = adjusted -2; confirm a p = expired refund; adjust m 1 = adjusted +1; confirm a q = confirmed oq
		hold b 1 = sold_out 0; restock oq 1 k = 1 true; adjust n -1 = adjusted -1; hold c 1 = sold_out 0`},
	{"an absolute count takes no adjustment", "", ledger.Rules{}, `overwrite s 1 = sold 4; adjust k 1 = adjust_unsupported
		adjust k -1 = adjust_unsupported; reset = ; adjust k 1 = adjusted +1; hold a 6 = held 0`},
	{"a product in segments takes adjustments", "sql", ledger.Rules{Segments: 2}, `adjust k 4 = adjusted +4
		adjust l -9 = adjusted -9; adjust m -1 = sold_out 0; adjust k 4 = adjusted +4 replay`},
	{"a product in segments takes no reservations", "", ledger.Rules{Segments: 2}, `hold a 1 = hold_unsupported`},
}

// Play plays the table on a seam, each row on a product of its own from one on. The payments of a row are the same on
// all seams with the same Key: stores that stand beside each other must not share them.
func Play(t *testing.T, s Seam, from int64) {
	t.Helper()
	for i, row := range rows {
		if row.store != "" && row.store != s.Store || !s.knows(row.sentences) ||
			row.rules.Segments > 0 && slices.Contains(s.Lacks, "segments") {
			continue
		}
		t.Run(row.rule, func(t *testing.T) {
			p := New(t, s, from+int64(i))
			p.Space = fmt.Sprint(i, ".")
			p.Begin(row.rules)
			p.Play(row.sentences)
		})
	}
}
