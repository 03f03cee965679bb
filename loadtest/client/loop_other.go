//go:build !linux

package client

import (
	"net"
	"time"
)

// Without epoll the engines run in goroutines.
type (
	loop struct{ users int }
	task struct{}
)

func spread([]*raw) {}

func (*loop) post(func())         {}
func (*loop) start(*task, func()) {}

func (*loop) dial(*raw, *net.Dialer) (link, error) { panic("unreachable") }

func (*task) wait(time.Time) {}
