// Package client speaks HTTP for the load generator, in three ways behind one interface, [Engine]: raw (one connection
// per worker and a parser of its own), net/http and resty. Every engine reports whether the service may have seen a
// request without an answer, because such a request must not count as refused. [Classify] classifies answers. Start
// reading there.
package client
