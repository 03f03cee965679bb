//go:build !linux

package keeper

import "syscall"

// childAttr puts a child into a process group of its own. Death signals exist on Linux only; elsewhere the parent ends
// the groups it knows of when the keeper is killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// adopt does nothing: only Linux lets a process adopt what its children leave behind.
func adopt() {}
