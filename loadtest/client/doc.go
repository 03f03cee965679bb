// Package client speaks HTTP for the load generator, in three ways behind one interface, [Engine]: raw (one connection per worker and a
// parser of its own), net/http and resty. Every engine says whether the service may have seen a request that got no answer, because what
// may have happened must not be counted as a no. [Classify] reads what an answer means. Start reading there.
package client
