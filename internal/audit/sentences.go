package audit

import (
	"lastitem/internal/text"
)

// Every sentence stands alone in a list, begins in lower case and names its numbers, so that it can be quoted without
// the report. Those about broken rules do not say whose fault it is: the judge knows only what was answered and stored.

// What is missing.
var (
	sayNoLedger     = text.Of("the ledger could not be read")
	sayNoStore      = text.Of("no store was named, so there is no stock to judge")
	sayUnavailable  = text.Of("store %s could not be read: %s")
	sayNoInitial    = text.Of("the ledger does not say how much stock %s held at the start")
	sayNoStock      = text.Of("the ledger does not say how much stock %s holds now")
	sayOtherProduct = text.Of("%d order [row in the ledger is|rows in the ledger are] not of product %d")
	sayOtherMode    = text.Of("%d order [row was|rows were] written by another mode than %s, so the run was not its own")
	sayStockSet     = text.Of("the stock was set to %d during the run, which had begun with %d: orders of the run were " +
		"deleted")
	saySegmentSum   = text.Of("the segments add up to %d, the stock says %d")
	sayNoHistory    = text.Of("a run was to be judged, but its history is not there")
	sayForeignOps   = text.Of("%d [request of the history is|requests of the history are] for another product")
	sayEmptyHistory = text.Of("the history holds no request for this product")
	sayBackwards    = text.Of("%d [answer|answers] of the history came before [its|their] request, so the clock cannot " +
		"be trusted")
	sayNoReplicas = text.Of("%d replicas stood behind the address, but neither answers nor orders name theirs")
	sayBeingSold  = text.Of("the product was being sold: at each of %d looks units were gone without an order, from " +
		"%d to %d of them, which may be sales whose order is not written yet; audit it again when no deduction is in flight")
	sayNoTime = text.Of("units are gone without an order, which may be sales whose order is not written yet, and " +
		"there was no time to look again; audit it again")
	sayUnknownUnits = text.Of("%d [unit is|units are] gone that only the %d unanswered [request|requests] can have " +
		"taken, which may be sales or a leak")
)

// Why the data could not have shown a failure.
var (
	sayNothingSold = text.Of("nothing was sold%s")
	sayStockLeft   = text.Of("the plan asked for more than the stock, but the stock did not run out: %d of %d units " +
		"left%s")
	sayNobodyRefused  = text.Of("the plan asked for more than the stock, but no request was refused as sold out%s")
	sayStopped        = text.Of("the run was stopped before its end")
	sayOneReplica     = text.Of("replica %s served everything, though there were %d")
	sayNoOverlap      = text.Of("no two requests ran at the same time")
	sayNoOverlapApart = text.Of("no two requests ran at the same time on different replicas")
)

// What was not checked.
var (
	sayLedgerOnly = text.Of("without a history: whether acknowledged orders are all there, refusals were justified, " +
		"and orders were asked for")
	sayExpired = text.Of("%d [order is|orders are] older than the retention of idempotency keys, %s: their stored " +
		"answers may have been removed")
	sayReleased = text.Of("reservations ended or orders came back during the run, so what was left of the stock says " +
		"nothing about the order of the sales, nor about refusals")
	sayMoved = text.Of("the stored answers to idempotency keys were not compared with the orders: the product was " +
		"sold while its pages were read; GET /products/{id}/audit reads one moment")
	sayReusedKeys = text.Of("%d [order uses an idempotency key again|orders use idempotency keys again] after the " +
		"key's retention of %s, as new requests may")
	sayManyRows  = text.Of("only the first %[2]d of %[1]d orders were searched for a repeated id or idempotency key")
	sayManyKeys  = text.Of("only the first %[2]d of %[1]d stored answers were compared with the orders")
	sayManyUnits = text.Of("%d [order was|orders were] not checked for units that another order has too: the sold " +
		"units have too many gaps")
	sayPartial     = text.Of("%d [order has|orders have] no answer in the history, which is not complete")
	sayNoRows      = text.Of("the service's order rows: lost acknowledged orders and unrequested orders cannot be found")
	sayUnknownIdle = text.Of("%d [request|requests] went unanswered; by the stock, nothing was taken")
)

// Broken rules.
var (
	sayNegative  = text.Of("the stock is %d")
	sayOverdrawn = text.Of("the counter is at %d: %d [unit was|units were] taken from below zero and not put " +
		"back, so a restock of as many is swallowed")
	saySegmentNegative = text.Of("segment %d holds %d")
	sayRepeatedID      = text.Of("%d order [row repeats|rows repeat] the id of another")
	sayUnnamed         = text.Of("%d order [row has|rows have] no id")
	sayEmptyOrder      = text.Of("%d order [row has a quantity|rows have quantities] of zero or less")
	sayPromised        = text.Of("%d stored [answer of an idempotency key promises|answers of idempotency keys " +
		"promise] an order that is not there")
	sayUnstored = text.Of("%d [order with an idempotency key has|orders with an idempotency key have] no " +
		"stored answer")
	sayDenied = text.Of("%d [order exists|orders exist] although the stored answer of [its|their] key is a " +
		"refusal")
	sayShared            = text.Of("%d [unit is|units are] in more than one order")
	sayRemainingNegative = text.Of("%d [order has|orders have] a negative remaining count")
	sayRemainingAbove    = text.Of("%d [order says that it|orders say that they] left more than [it|they] can have found")
	sayRemainingBelow    = text.Of("%d [order|orders] left less than the %d in stock now, and a deduction never raises " +
		"the stock")
	sayWrongRow = text.Of("order %s was acknowledged for product %d, quantity %d, and is stored for product %d, " +
		"quantity %d")
	sayWrongRemaining = text.Of("order %s was acknowledged with %d remaining and is stored with %d")
	sayWrongKey       = text.Of("order %s was acknowledged to another idempotency key than the one it is stored with")
	sayAckedTwice     = text.Of("%d ok [answer names|answers name] an order that had been acknowledged to another request")
	sayAckedTooMuch   = text.Of("%d [unit was|units were] acknowledged, and the stock was %d")
	sayNamelessAck    = text.Of("%d ok [answer has|answers have] no order id")
	sayWrongReplay    = text.Of("%d replayed [answer differs|answers differ] from the first answer for [its|their] key")
	sayRefusedSale    = text.Of("%d [request was|requests were] refused although the stored answer of [its|their] key " +
		"is a sale")
	sayDespite = text.Of("%d [order exists although its request was|orders exist although their requests were] " +
		"told that nothing happened")
	sayUnanswered   = text.Of("%d [order exists|orders exist] that no answer accounts for")
	sayBadRefusals  = text.Of("%d [request was|requests were] refused though in stock: no order of events justifies it")
	sayLeakRefusals = text.Of("%d [request was|requests were] refused because of the leaked units")
	sayInverted     = text.Of("%d [sale|sales] left more than a sale that began after [it|they] had ended")
	sayStuckTooSoon = text.Of("every request found the product busy until the end, but there were too few requests " +
		"after %s, when every lock of a stopped or dead holder must have been free")
	sayStuck = text.Of("the last %d [request|requests] found it busy and none finished, with %d [unit|units] left")
)

// What became of a claim.
var (
	sayNotApplicable  = text.Of("the claim is that this cannot happen here, so there is nothing to compare")
	sayBadClaim       = text.Of("the claim %q is not made of outcome letters")
	sayUndecided      = text.Of("the run was %s, so the claim is neither confirmed nor contradicted")
	sayExactAsClaimed = text.Of("claimed exact, and exact: %d of %d units sold, each once")
	sayDidNotBreak    = text.Of("claimed %s, but did not break: not tested or not broken")
	sayNotExact       = text.Of("claimed exact, but %s")
	sayOutside        = text.Of("claimed %s, but %s")
	sayO              = text.Of("oversold %d [unit|units], and lost updates left %d [unit|units] too many to sell")
	sayL              = text.Of("%d [unit is|units are] gone without an order")
	sayD              = text.Of("%d [order|orders] beyond the first for the same idempotency key")
	sayX              = text.Of("it got stuck with %d [unit|units] left")
	sayA              = text.Of("%d acknowledged [order is|orders are] not there")
	sayB              = text.Of("a buyer has more than the limit")
	sayU              = text.Of("%d [request was|requests were] refused while units were free")
)

// Parts of the report.
var (
	sayUnit       = text.Of("unit %d was sold %d times")
	sayUnitBeyond = text.Of("unit %d of %d was sold (times: %d)")
	sayOrder      = text.Of("order %s")
	sayReplica    = text.Of("replica %s")
	sayMore       = text.Of("and %d more")
	sayMoreUnits  = text.Of("and more: %d")
	sayProduct    = text.Of("product %d")
	sayNumbers    = text.Of("%d before, %d after; %d [order|orders] for %d [unit|units]")
	sayCounts     = text.Of("oversold %d, lost updates %d, leaked %d, double orders %d, lost orders %d, unjustified " +
		"refusals %d")
	sayBlocked = text.Of("no request finished for %s while others were waiting")
	sayAnswers = text.Of("%d ok, %d sold out, %d declined, %d unknown")

	labelStock     = text.Of("stock")
	labelBroken    = text.Of("found")
	labelAnswers   = text.Of("answers")
	labelViolation = text.Of("broken")
	labelFollows   = text.Of("follows")
	labelMissing   = text.Of("because")
	labelUnchecked = text.Of("unchecked")
	labelBlocked   = text.Of("blocked")
	labelEvidence  = text.Of("evidence")
)
