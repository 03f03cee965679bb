package localstack

import "syscall"

// childAttr puts a child into a process group of its own and has the kernel kill it when the keeper's thread ends, so
// that even a kill -9 of the keeper leaves no server behind.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
