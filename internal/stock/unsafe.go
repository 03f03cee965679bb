package stock

// unsafe is GET, check, SET, append the order, with nothing around it. It oversells at the second concurrent request.
var unsafe = Mode{
	Name:   "unsafe",
	Title:  Text{"GET, check, SET, append the order: no lock at all", "GET、判断、SET、写订单：完全不加锁"},
	Needs:  []Backend{NeedRedis},
	Stores: []Store{Redis},
	Claims: map[Store]Claims{Redis: {Threads: "O"}},
	New:    func(d Deps) (Deductor, error) { return trusting{d}, nil },
}
