package report

import (
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// holdSteps names the requests about a reservation.
var holdSteps = text.Table(map[judge.ReservationKind]string{
	judge.Reserve: "reserve", judge.Confirm: "confirm", judge.Cancel: "cancel", judge.Extend: "extend",
	judge.Return: "return",
})

// holdLines says what became of the buyers of a run that reserves; none for other runs.
func holdLines(h *loadtest.ReservationFigures, lang string) []string {
	if h == nil {
		return nil
	}
	var lines []string
	if h.Took > 0 {
		lines = append(lines, text.Of("measured before the load: a reserve or its payment took %s (p50); chosen: held "+
			"for %s, paid after %s to %s").With(h.Took, h.Reserving.For, h.Reserving.PayFrom, h.Reserving.PayTo).In(lang))
	}
	lines = append(lines,
		text.Of("completed sales: %s/s; of %d [buyer|buyers], %d reserved and %d paid; sold_out answers: %d, "+
			"limit_reached: %d").With(rate(h.SalesPerSecond), h.Buyers, h.Reserved, h.Sold, h.Refused, h.Limited).In(lang),
		text.Of("reservations: %d confirmed, %d cancelled, %d expired, %d extended; late payments refunded: %d; orders "+
			"returned: %d; double clicks: %d; confirms that met a deadline or a sweep: %d").With(h.Sold, h.Cancelled, h.Expired,
			h.Extended, h.Refunded, h.Returned, h.Doubled, h.Races).In(lang))
	var parts []string
	for _, kind := range judge.ReservationKinds {
		if l := h.Latency[kind]; l.Count > 0 {
			parts = append(parts, holdSteps.In(lang)[kind]+" "+millis(l.P50)+"/"+millis(l.P95)+"/"+millis(l.P99))
		}
	}
	if len(parts) > 0 {
		lines = append(lines, text.Of("p50/p95/p99 of good answers, ms: %s").With(strings.Join(parts,
			text.Of(", ").In(lang))).In(lang))
	}
	return lines
}

// ticketLines says what became of tickets that were followed.
func ticketLines(t *loadtest.TicketFigures, lang string) []string {
	if t == nil {
		return nil
	}
	lines := []string{text.Of("tickets: %d won, %d sold, %d the order of their key, %d refused, %d failed, %d unknown to "+
		"the service, %d still queued").With(t.Won, t.Ends["sold"], t.Ends["same"], t.Ends["refused"], t.Ends["failed"],
		t.Ends[""], t.Ends[api.TicketQueued]).In(lang)}
	return append(lines,
		text.Of("completed: %s/s; from the 202 to the answer that told the end: p50 %s, p99 %s ms; at most "+
			"%d in flight; the last ended %s after the last answer").With(rate(t.CompletedPerSecond), millis(t.Age.P50),
			millis(t.Age.P99), t.InFlight, t.Drained.Round(time.Millisecond)).In(lang))
}

// holdingText says what the buyers of a plan do.
func holdingText(h plan.Reserving, lang string) string {
	said := text.Of("held for %s: %s%% pay after %s to %s, %s%% pay late, %s%% cancel").With(h.For, trimFloat(100*h.Pays),
		h.PayFrom, h.PayTo, trimFloat(100*h.PaysLate), trimFloat(100*h.Cancels)).In(lang)
	if h.Scaled {
		said += text.Of(" (times: at least)").In(lang)
	}
	for _, more := range []struct {
		share float64
		said  text.Text
	}{
		{h.Extends, text.Of(", %s%% extend")}, {h.Returns, text.Of(", %s%% return")},
		{h.Carts, text.Of(", %s%% want a second product")},
	} {
		if more.share > 0 {
			said += more.said.With(trimFloat(100 * more.share)).In(lang)
		}
	}
	if h.PerBuyer > 0 {
		said += text.Of(", at most %d a buyer").With(h.PerBuyer).In(lang)
	}
	return said
}
