// Package target is a service as a client sees it: what is sent to it, what its answers mean, and how its stock is set
// and read.
//
// Of lastitem, [Ask] is a request, [Read] its answer by the contract, and [Shop] the rest: modes, stock, ledgers and
// reservations. Of anybody's service, [Foreign] is a description, which makes the requests and reads the answers, and
// [Remote] the service at an address, with its stores. Both say what they send as a [Call] and what came back as a
// [Reply].
//
// Whatever an answer does not say is unknown, never failed: see [Answer].
package target
