package store

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"strings"
)

//go:embed sql
var sqlFiles embed.FS

// queries are the statements of one dialect: those of sql/both.sql, and those of sql/<dialect>.sql where the dialects
// differ.
type queries struct {
	read, facts, set, take, takeAt    string
	insertOrder, orders, deleteOrders string
	claimKey, readKey, keepAnswer     string
	keys, deleteKeys, reset           string
	setVersion, setUpdated            string
	readForUpdate, readNowait         string // MySQL only
	deleteCartKeys, unkeyCarts        string
	deleteBuyers                      string
	deleteLock                        string
	setFenced                         string
	raiseFence, raiseFenceStrictly    string

	readLocked, insertAnswers, readAnswers string
	look                                   string
	readRun, takeOfRun, sold, anySold      string
	sellInOneTrip                          string // MySQL only

	totals, ordersPage, cartKeysPage, keysPage string
	ordersOf, keysOf, cartKeysOf               string
	oldKeys, surplusKeys, purgeKeys            string

	clock, holdRead, holdLock, holdDue, holdProduct, holdGive, holdInsert, holdItemInsert              string
	holdDueOf, holdsItems, productsFree, holdsMove, holdsEvents, buyersGive                            string
	holdItems, holdMove, holdExtend, holdOrderInsert, holdEvent, holdCertain, holdOrder                string
	holdWay, holdSet, holdLate, holdFree, paymentRead, paymentInsert, paymentOrder, buyerRow           string
	buyerTake, buyerGive, buyerHas, buyerBought, unitsFree, unitsInsert, unitsOld, unitsTake, unitsOwn string
	unitsGive, unitsWriteOff, orderLock, orderReturn, holdsOf, holdRules                               string
	buyersOf, holdsPage, holdEventsOf, holdOrdersOf, holdPaymentsOf, holdTake, holdOldest              string
	orderBuyer, holdsEnded, holdsUnchanged, purgeItems, purgeEvents, purgeHolds                        string
}

func loadQueries(dialect string) (queries, error) {
	var q queries
	var errs []error
	said := map[string]string{}
	for _, file := range []string{"both", dialect} {
		text, err := sqlFiles.ReadFile("sql/" + file + ".sql")
		errs = append(errs, err)
		maps.Copy(said, statements(string(text)))
	}
	for name, dest := range map[string]*string{
		"read": &q.read, "look": &q.look, "facts": &q.facts, "set": &q.set, "take": &q.take, "take_at": &q.takeAt,
		"insert_order": &q.insertOrder, "orders": &q.orders, "delete_orders": &q.deleteOrders,
		"claim_key": &q.claimKey, "read_key": &q.readKey, "keep_answer": &q.keepAnswer,
		"keys": &q.keys, "delete_keys": &q.deleteKeys, "reset": &q.reset,
		"set_version": &q.setVersion, "set_updated": &q.setUpdated,
		"read_for_update": &q.readForUpdate, "read_for_update_nowait": &q.readNowait,
		"delete_cart_keys": &q.deleteCartKeys, "unkey_carts": &q.unkeyCarts,
		"delete_buyers": &q.deleteBuyers, "delete_lock": &q.deleteLock,
		"set_fenced": &q.setFenced, "raise_fence": &q.raiseFence, "raise_fence_strictly": &q.raiseFenceStrictly,
		"read_locked": &q.readLocked, "insert_answers": &q.insertAnswers, "read_answers": &q.readAnswers,
		"read_run": &q.readRun, "take_of_run": &q.takeOfRun, "sell_in_one_trip": &q.sellInOneTrip,
		"sold": &q.sold, "any_sold": &q.anySold,
		"totals": &q.totals, "orders_page": &q.ordersPage, "cart_keys_page": &q.cartKeysPage, "keys_page": &q.keysPage,
		"orders_of": &q.ordersOf, "keys_of": &q.keysOf, "cart_keys_of": &q.cartKeysOf,
		"clock": &q.clock, "hold_read": &q.holdRead, "hold_lock": &q.holdLock,
		"hold_due": &q.holdDue, "hold_due_of": &q.holdDueOf, "holds_items": &q.holdsItems,
		"products_free": &q.productsFree, "holds_move": &q.holdsMove, "holds_events": &q.holdsEvents,
		"buyers_give":  &q.buyersGive,
		"hold_product": &q.holdProduct, "hold_give": &q.holdGive, "hold_insert": &q.holdInsert,
		"hold_item_insert": &q.holdItemInsert, "hold_items": &q.holdItems, "hold_order": &q.holdOrder, "hold_move": &q.holdMove,
		"hold_extend": &q.holdExtend, "hold_order_insert": &q.holdOrderInsert,
		"hold_event": &q.holdEvent, "hold_certain": &q.holdCertain, "hold_way": &q.holdWay, "hold_set": &q.holdSet,
		"hold_late": &q.holdLate,
		"hold_free": &q.holdFree, "payment_read": &q.paymentRead, "payment_insert": &q.paymentInsert,
		"payment_order": &q.paymentOrder, "buyer_row": &q.buyerRow, "buyer_take": &q.buyerTake,
		"buyer_give": &q.buyerGive, "buyer_has": &q.buyerHas,
		"buyer_bought": &q.buyerBought, "units_free": &q.unitsFree,
		"units_insert": &q.unitsInsert, "units_old": &q.unitsOld, "units_take": &q.unitsTake,
		"units_own": &q.unitsOwn, "units_give": &q.unitsGive, "units_write_off": &q.unitsWriteOff,
		"order_lock": &q.orderLock, "order_return": &q.orderReturn, "holds_of": &q.holdsOf,
		"hold_rules": &q.holdRules, "buyers_of": &q.buyersOf, "holds_page": &q.holdsPage,
		"hold_events_of": &q.holdEventsOf, "hold_orders_of": &q.holdOrdersOf, "hold_payments_of": &q.holdPaymentsOf,
		"hold_take": &q.holdTake, "hold_oldest": &q.holdOldest, "holds_ended": &q.holdsEnded,
		"holds_unchanged": &q.holdsUnchanged, "order_buyer": &q.orderBuyer,
		"purge_items": &q.purgeItems, "purge_events": &q.purgeEvents,
		"purge_holds": &q.purgeHolds,
		"old_keys":    &q.oldKeys, "surplus_keys": &q.surplusKeys, "purge_keys": &q.purgeKeys,
	} {
		if *dest = said[name]; *dest == "" {
			errs = append(errs, fmt.Errorf("store: no statement %s for %s", name, dialect))
		}
		delete(said, name)
	}
	for name := range said {
		errs = append(errs, fmt.Errorf("store: the statement %s for %s is used nowhere", name, dialect))
	}
	return q, errors.Join(errs...)
}

// statements returns what follows each line "-- name: X". It drops comments: gorm would take their question marks for
// parameters.
func statements(text string) map[string]string {
	all, name := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if said, begins := strings.CutPrefix(line, "-- name: "); begins {
			name = said
		} else if line != "" && !strings.HasPrefix(line, "--") {
			all[name] = append(all[name], line)
		}
	}
	joined := map[string]string{}
	for name, lines := range all {
		joined[name] = strings.Join(lines, "\n")
	}
	return joined
}

// list expands the "(?)" of a statement to n parameters.
func list(query string, n int) string {
	return strings.Replace(query, "(?)", "(?"+strings.Repeat(", ?", n-1)+")", 1)
}
