package replica

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// handshakes is how long a connection that was begun before turnAway may take to be made: more than a round trip to any
// balancer.
const handshakes = 250 * time.Millisecond

// turnAway lets no new connection begin at a listener, while those that the kernel is making or has made reach Accept:
// the kernel drops each request for one (a segment with SYN and without ACK) unread. The client asks again after a
// second, and then nobody listens: it is refused. Closing alone would reset the connections that nobody has accepted
// yet, and their clients may have sent a request.
func turnAway(l *net.TCPListener) error {
	const flags, syn, synOrAck = 13, 0x02, 0x12 // in the header of TCP, which the filter is shown
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: flags, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: synOrAck},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18}, // all of it
		bpf.RetConstant{Val: 0},       // nothing
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, op := range program {
		filter[i] = unix.SockFilter{Code: op.Op, Jt: op.Jt, Jf: op.Jf, K: op.K}
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var attached error
	if err := raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}); err != nil {
		return err
	}
	if attached != nil {
		return fmt.Errorf("attach a filter: %w", attached)
	}
	time.Sleep(handshakes)
	return nil
}
