package handler

import (
	"lastitem/contract/api"
	"lastitem/say/text"
)

// The reader of an error may have nothing but these texts: they say what happened to the stock, and what to do now.

// explanations holds, for each code, what it means and what to do; the English one is also the detail of a problem that
// has nothing more precise to say.
var explanations = map[api.Code]text.Text{
	api.SoldOut: text.Of("fewer units are left than were requested"),
	api.ProductSegmented: text.Of("the product's stock is split into segments and this mode works on one counter; " +
		"set the stock again without segments"),
	api.LimitUnsupported: text.Of("the product has a limit per buyer, a row per unit or a computed stock, and this mode " +
		"cannot keep to that; sell one with a limit by redis-lua, idempotent, queue or a mode that " +
		"reserves, or set the stock again without them"),
	api.HoldUnsupported: text.Of("this mode does not hold units, or the product was sold or held in a way that excludes " +
		"it, since one would overwrite or miss what the other changes; set its stock again, and keep to one way"),
	api.ReturnUnsupported: text.Of("the product is segmented, or sold by a mode that writes the count it has computed, " +
		"or the order was a ticket's: the units of a return would be lost there, or be in one store only"),
	api.AdjustUnsupported: text.Of("a mode writes the count that it has computed, and would overwrite the adjustment; " +
		"or the segments are on several nodes of a cluster, or there would be more than 100000 rows of units; set the " +
		"stock again. A product that is sold by tickets is adjusted in all stores, without store"),
	api.ReconcileRefused: text.Of("it cannot be told what is missing, or a repair would hide something else; the " +
		"problem says why, and nothing was changed"),
	api.ReservationExpired: text.Of("the deadline has passed, or the stock was set anew: the units are given back; a " +
		"payment must go back to its buyer where refund is true"),
	api.ReservationCancelled: text.Of("the reservation was cancelled: the units are given back; a payment must go " +
		"back to its buyer where refund is true"),
	api.ReservationConfirmed: text.Of("the reservation is an order already: it stays as it is, and a payment other than " +
		"its own must go back to its buyer where refund is true"),
	api.UnknownReservation: text.Of("there is no such reservation, or it ended so long ago that it is forgotten"),
	api.UnknownOrder:       text.Of("the product has no such order since its stock was set"),
	api.UnknownTicket: text.Of("there is no such ticket since the product's stock was set; a failover of Redis loses " +
		"tickets that it had not replicated"),
	api.QueueFull: text.Of("too many tickets of the product wait for their orders; nothing was deducted"),
	api.LimitReached: text.Of("the buyer would hold or have more units of the product than it allows; units that he " +
		"gives back count no more"),
	api.UnknownProduct: text.Of("none of the stores that were asked has this product; PUT /products/{id}/stock " +
		"creates it in every store"),
	api.UnknownMode:    text.Of("there is no such mode; GET /modes lists them"),
	api.NotFound:       text.Of("there is no such route; GET / lists them"),
	api.InvalidRequest: text.Of("a field is missing, unknown, given twice or out of range; the problem names it"),
	api.KeyMissing:     text.Of("this request needs an Idempotency-Key header"),
	api.Unauthorized:   text.Of("this route needs Authorization: Bearer with the admin token"),
	api.Forbidden: text.Of("a browser sent this request for a page of another site, or with a host name that " +
		"the shop does not accept; or a deduction has lease_ms, depth or hold_ms without the admin token"),
	api.MethodNotAllowed: text.Of("the path exists, but not for this method; the Allow header lists the methods"),
	api.BodyTooLarge:     text.Of("the body may hold at most 65536 bytes"),
	api.UnsupportedMediaType: text.Of("send application/json or application/x-www-form-urlencoded, in UTF-8 and without " +
		"Content-Encoding"),
	api.KeyReused: text.Of("this Idempotency-Key belongs to a request with another payload; use a new key for " +
		"a new request; after its retention (SHOP_KEEP_KEYS) a key is forgotten, and deducts again"),
	api.InFlight: text.Of("the first request with this Idempotency-Key is still being worked on; repeat with " +
		"the same key"),
	api.RateLimited: text.Of("too many requests of this kind; this one was not executed, and may be repeated " +
		"after Retry-After"),
	api.LockBusy:           text.Of("somebody else held the lock for as long as wait_ms allows; nothing was deducted"),
	api.LockLost:           text.Of("the lock was lost before the first write; nothing was deducted"),
	api.Contended:          text.Of("another request won the race for this product; nothing was deducted"),
	api.BackendUnavailable: text.Of("a backend did not answer, or refused; nothing was deducted"),
	api.StaleRead: text.Of("the database server that answers may be a replica that lacks the last sales, so nothing is " +
		"judged: let SHOP_SQL lead to the primary; a node of Galera needs wsrep_sync_wait=1 in its configuration"),
	api.ModeUnavailable: text.Of("this mode lacks a backend; GET /modes/{mode} says which, and what to do"),
	api.OutcomeUnknown: text.Of("the write was sent and its answer was lost: it may have happened; repeat only with " +
		"the same Idempotency-Key"),
	api.Internal: text.Of("something unforeseen went wrong; the service has logged the cause"),
}
