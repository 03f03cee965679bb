package stock

import "lastitem/say/text"

// unsafe is GET, check, SET, append the order, with nothing around it. It oversells at the second concurrent request.
var unsafe = Mode{
	Name:   "unsafe",
	Title:  text.Of("GET, check, SET, append the order: no lock at all"),
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis},
	Claims: map[Store]Claims{Redis: {Threads: "O"}},
	New:    func(d Deps) (Deductor, error) { return trusting{d}, nil },
}
