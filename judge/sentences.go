package judge

import "lastitem/say/text"

// The sentences that several rules say. Every sentence stands alone in a list, begins in lower case and names its
// numbers, so that it can be quoted without the report. Those about broken rules do not say whose fault it is: the
// judge knows only what was answered and stored.
var (
	sayOtherProduct = text.Of("%d order [row in the ledger is|rows in the ledger are] not of product %d")
	sayStockSet     = text.Of("the stock was set to %d during the run, which had begun with %d: orders of the run were " +
		"deleted")
	sayEmptyHistory  = text.Of("the history holds no request for this product")
	sayNothingSold   = text.Of("nothing was sold%s")
	sayNobodyRefused = text.Of("the plan asked for more than the stock, but no request was refused as sold out%s")
	sayStopped       = text.Of("the run was stopped before its end")
	sayOneReplica    = text.Of("replica %s served everything, though there were %d")
	sayNoOverlap     = text.Of("no two requests ran at the same time")
	sayOverdrawn     = text.Of("the counter is at %d: %d [unit was|units were] taken from below zero and not put " +
		"back, so a restock of as many is swallowed")
	sayLeakRefusals = text.Of("%d [request was|requests were] refused because of the leaked units")
	sayBadLimit     = text.Of("%d limit_reached [answer|answers] while the buyer must have had room")
	sayBackwards    = text.Of("%d [answer|answers] of the history came before [its|their] request, so the clock cannot " +
		"be trusted")
	sayTooMuch = text.Of("at one moment at least %d units were held or sold, of %d")

	labelEvidence = text.Of("evidence")
)
