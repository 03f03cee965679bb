package sqldb

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

//go:embed sql
var files embed.FS

// queries are the statements of one dialect: those of sql/both.sql, and those of sql/<dialect>.sql where the dialects
// differ. A field has the statement of its name.
type queries struct {
	Read, Facts, Set, Take, TakeAt, SetVersion, SetUpdated              string
	InsertOrder, ClaimKey, ReadKey, KeepAnswer                          string
	Reset, DeleteOrders, DeleteKeys, DeleteCartKeys, UnkeyCarts         string
	DeleteBuyers, DeleteLock, SetFenced, RaiseFence, RaiseFenceStrictly string
	ReadForUpdate, ReadForUpdateNowait                                  string // MySQL only

	ReadLocked, InsertAnswers, ReadAnswers string
	Look                                   string
	ReadRun, TakeOfRun, Sold, AnySold      string
	SellInOneTrip                          string // MySQL only

	Totals, OrdersPage, CartKeysPage, KeysPage string
	OrdersOf, KeysOf, CartKeysOf               string
	OldKeys, SurplusKeys, PurgeKeys            string

	Clock, HoldRead, HoldLock, HoldDue, HoldProduct, HoldGive, HoldInsert, HoldItemInsert              string
	HoldDueOf, HoldsItems, ProductsFree, HoldsMove, HoldsEvents, BuyersGive                            string
	HoldItems, HoldMove, HoldExtend, HoldOrderInsert, HoldEvent, HoldCertain, HoldOrder                string
	HoldChange, HoldChanges, HoldPart, ReturnInsert, ReturnsOfOrder, ReturnsOf, DeleteReturns          string
	HoldWay, HoldSet, HoldLate, HoldFree, PaymentRead, PaymentInsert, PaymentOrder, BuyerRow           string
	BuyerTake, BuyerGive, BuyerHas, BuyerBought, UnitsFree, UnitsInsert, UnitsOld, UnitsTake, UnitsOwn string
	UnitsGive, UnitsWriteOff, OrderLock, HoldsOf, HoldRules                                            string
	BuyersOf, HoldsPage, HoldEventsOf, HoldOrdersOf, HoldPaymentsOf, HoldTake, HoldOldest              string
	Adjust, AdjustLock, AdjustedBy, AdjustmentInsert, AdjustmentsOf, AdjustmentsSum, DeleteAdjustments string
	UnitsSpare, UnitsDelete, UnitsLast                                                                 string
	Received, ReceivedKeys, ReceivedInsert, ReceivedReplace, DeleteReceived, TakeTickets               string
	ReceivedAny, ReceivedPage, ReceivedSold, Reconciled, DeleteReconciliations                         string
	ReconciliationInsert, ReconciliationUndone, ReconciliationApplied                                  string
	FactsForUpdate, SeveralWriters, ServerState                                                        string // MySQL only
	OrderBuyer, HoldsEnded, HoldsUnchanged, PurgeItems, PurgeEvents, PurgeHolds                        string
}

func loadQueries(dialect string) (q queries, err error) {
	said := map[string]string{}
	var errs []error
	for _, file := range []string{"both", dialect} {
		text, err := files.ReadFile("sql/" + file + ".sql")
		errs = append(errs, err)
		maps.Copy(said, statements(string(text)))
	}
	for field, dest := range reflect.ValueOf(&q).Elem().Fields() {
		dest.SetString(said[field.Name])
		if dest.IsZero() {
			errs = append(errs, fmt.Errorf("store: no statement for %s of %s", field.Name, dialect))
		}
		delete(said, field.Name)
	}
	for name := range said {
		errs = append(errs, fmt.Errorf("store: the statement %s of %s has no field", name, dialect))
	}
	return q, errors.Join(errs...)
}

// statements returns what follows each line "-- name: hold_move", by the name HoldMove. It drops comments: gorm would
// take their question marks for parameters.
func statements(text string) map[string]string {
	all, name := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if said, begins := strings.CutPrefix(line, "-- name: "); begins {
			name = ""
			for part := range strings.SplitSeq(said, "_") {
				name += strings.ToUpper(part[:1]) + part[1:]
			}
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

// anys makes arguments of values.
func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// null makes an argument of a value, NULL if it is empty.
func null[T string | []byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

// list expands the "(?)" of a statement to n parameters.
func list(query string, n int) string {
	return strings.Replace(query, "(?)", "(?"+strings.Repeat(", ?", n-1)+")", 1)
}

// tuples repeats the tuple of an INSERT, the line that begins with VALUES, n times.
func tuples(query string, n int) string {
	head, rest, _ := strings.Cut(query, "\nVALUES ")
	tuple, tail, _ := strings.Cut(rest, "\n")
	var b strings.Builder
	b.Grow(len(query) + (n-1)*(len(tuple)+1) + 1)
	b.WriteString(head)
	b.WriteString("\nVALUES ")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(tuple)
	}
	b.WriteByte('\n')
	b.WriteString(tail)
	return b.String()
}
