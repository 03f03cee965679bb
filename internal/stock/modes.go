package stock

// Modes lists every mode in teaching order: the baseline, then broken first, then repaired. Adding a mode is one file and one
// line here; the API, the command line, the load generator, the generated docs and the conformance tests derive from it.
func Modes() []Mode {
	return []Mode{
		noop,
		unsafe,
		mutex,
		setnx,
		luaLock,
		watchdog,
		handoff,
		segmented,
		leaseSeq,
		idempotent,
	}
}
