package keeper

import "syscall"

// childAttr puts a child into a process group of its own and has the kernel kill it when the keeper's thread ends, so
// that even a kill -9 of the keeper leaves no server behind.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes the keeper the parent of what its children leave behind, so that it can end that too. Without it only
// their groups end.
func adopt() {
	const setChildSubreaper = 36 // see prctl(2)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
}
