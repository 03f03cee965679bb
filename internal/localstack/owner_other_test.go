//go:build !linux

package localstack

// strangersPort says whether a process outside a session listens on a port. Where nobody can tell, it is not.
func strangersPort(string, int) bool { return false }

// heldBy describes the processes that listen on a port, where that can be told.
func heldBy(string) string { return "" }
