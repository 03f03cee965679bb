package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// cork keeps what is written from now on until the connection is closed, so that it goes out together with the end.
func cork(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) // without it the end comes a moment later
	})
}
