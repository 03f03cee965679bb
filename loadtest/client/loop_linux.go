package client

import (
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// clientsPerLoop is how many clients a loop should have at least: fewer loops take more answers from one wait, and
// leave more of the processors to the servers under test.
const clientsPerLoop = 16

// loop runs clients as coroutines over one epoll. While one of them waits for its socket, the others go on, and no
// thread changes hands: a request costs a write, a read, and its share of a wait for all sockets that are ready.
// A goroutine on a connection costs a read in vain, two timers and two wake-ups more.
type loop struct {
	epoll, wake, waker int // descriptors; a byte written to waker ends a wait by making wake readable
	sockets            map[int32]*socket
	tasks              []*task
	due                time.Time // no task's time is up before this one; zero = none has a time
	users              int       // engines that are open

	mu     sync.Mutex
	posted []func()
	asleep bool // a wait has begun that a post must end
}

// task is a coroutine.
type task struct {
	loop *loop
	next func() (struct{}, bool)
	park func(struct{}) bool
	at   int       // in loop.tasks
	due  time.Time // while it waits: when it goes on at the latest; zero = when it is resumed
}

// spread gives the engines loops. If the system refuses one, the engines stay with goroutines.
func spread(engines []*raw) {
	loops := make([]*loop, min(runtime.GOMAXPROCS(0), max(1, len(engines)/clientsPerLoop)))
	for i := range loops {
		l, err := newLoop()
		if err != nil {
			for _, made := range loops[:i] {
				made.close()
			}
			return
		}
		loops[i] = l
	}
	for i, r := range engines {
		l := loops[i%len(loops)]
		r.loop = l
		l.users++
	}
	for _, l := range loops {
		go l.run()
	}
}

// newLoop opens the descriptors of a loop.
func newLoop() (*loop, error) {
	var pipe [2]int
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err = syscall.Pipe2(pipe[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		_ = syscall.Close(epoll)
		return nil, os.NewSyscallError("pipe2", err)
	}
	l := &loop{epoll: epoll, wake: pipe[0], waker: pipe[1], sockets: map[int32]*socket{}}
	if err = l.watch(l.wake, syscall.EPOLLIN); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// watch adds a descriptor.
func (l *loop) watch(fd int, events uint32) error {
	event := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, fd, &event))
}

// close closes the loop's descriptors.
func (l *loop) close() {
	for _, fd := range []int{l.epoll, l.wake, l.waker} {
		_ = syscall.Close(fd)
	}
}

// post has the loop call f.
func (l *loop) post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	wake := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if wake {
		_, _ = syscall.Write(l.waker, []byte{0})
	}
}

// start begins a coroutine that runs f.
func (l *loop) start(t *task, f func()) {
	t.loop, t.at = l, len(l.tasks)
	l.tasks = append(l.tasks, t)
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.park = yield
		f()
	})
	t.resume()
}

// resume lets a coroutine go on until it waits again or ends.
func (t *task) resume() {
	if _, more := t.next(); more {
		return
	}
	l, last := t.loop, len(t.loop.tasks)-1
	l.tasks[t.at] = l.tasks[last]
	l.tasks[t.at].at = t.at
	l.tasks[last] = nil
	l.tasks = l.tasks[:last]
}

// wait leaves the loop to the others until the coroutine is resumed, or until due, if that is not zero.
func (t *task) wait(due time.Time) {
	if t.due = due; !due.IsZero() && (t.loop.due.IsZero() || due.Before(t.loop.due)) {
		t.loop.due = due
	}
	t.park(struct{}{})
	t.due = time.Time{}
}

// elsewhere runs f, which may block, in a goroutine, and waits for it.
func (t *task) elsewhere(f func()) {
	ended := false
	go func() {
		f()
		t.loop.post(func() { ended = true; t.resume() })
	}()
	for !ended {
		t.wait(time.Time{})
	}
}

// run serves the coroutines until the last engine is closed.
func (l *loop) run() {
	defer l.close()
	events := make([]syscall.EpollEvent, 256)
	for l.takePosted() {
		n, err := syscall.EpollWait(l.epoll, events, l.patience())
		if err != nil && !errors.Is(err, syscall.EINTR) {
			panic("loadtest: epoll_wait: " + err.Error()) // only for arguments that are wrong
		}
		for _, event := range events[:max(n, 0)] {
			if int(event.Fd) == l.wake {
				var drained [64]byte
				_, _ = syscall.Read(l.wake, drained[:])
			} else if s := l.sockets[event.Fd]; s != nil {
				s.happened(event.Events)
			}
		}
		l.resumeDue()
	}
}

// takePosted calls what was posted; false means that no engine is left.
func (l *loop) takePosted() bool {
	for {
		l.mu.Lock()
		posted := l.posted
		l.posted, l.asleep = nil, len(posted) == 0
		over := l.users == 0
		l.mu.Unlock()
		if len(posted) == 0 {
			return !over
		}
		for _, f := range posted {
			f()
		}
	}
}

// patience is how long a wait for sockets may last, in milliseconds: -1 = as long as it takes.
func (l *loop) patience() int {
	if l.due.IsZero() {
		return -1
	}
	return int(max(0, time.Until(l.due)+time.Millisecond-1) / time.Millisecond)
}

// resumeDue resumes the coroutines whose time is up.
func (l *loop) resumeDue() {
	if l.due.IsZero() || time.Now().Before(l.due) {
		return
	}
	now, next := time.Now(), time.Time{}
	var up []*task
	for _, t := range l.tasks {
		switch {
		case t.due.IsZero():
		case !t.due.After(now):
			up = append(up, t)
		case next.IsZero() || t.due.Before(next):
			next = t.due
		}
	}
	l.due = next
	for _, t := range up {
		t.resume()
	}
}

// socket is a connection of a loop, for one coroutine at a time.
type socket struct {
	fd       int
	loop     *loop
	owner    *raw
	deadline time.Time
	waiting  *task
	ready    bool // something has happened that no read or write has answered yet
	ended    bool // the other side sends no more
}

// dial connects in a goroutine, since that may take a name server, and takes the descriptor over.
func (l *loop) dial(owner *raw, dialer *net.Dialer) (link, error) {
	s := &socket{fd: -1, loop: l, owner: owner}
	var err error
	owner.task.elsewhere(func() {
		var conn net.Conn
		if conn, err = dialer.Dial("tcp", owner.addr); err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		err = withDescriptor(conn, func(fd uintptr) error {
			copied, _, code := syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
			if code != 0 {
				return os.NewSyscallError("fcntl", code)
			}
			s.fd = int(copied)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	l.sockets[int32(s.fd)] = s
	// Each event tells of a change, once, whether somebody waits for it or not.
	const changes = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31 // EPOLLET
	if err = l.watch(s.fd, changes); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// happened notes an event and resumes the coroutine that waits for it.
func (s *socket) happened(events uint32) {
	s.ready = true
	s.ended = s.ended || events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0
	if s.waiting != nil {
		s.waiting.resume()
	}
}

// wait waits until something happens; at the deadline it returns [os.ErrDeadlineExceeded].
func (s *socket) wait() error {
	for !s.ready {
		s.waiting = s.owner.task
		s.waiting.wait(s.deadline)
		s.waiting = nil
		if !s.ready && !time.Now().Before(s.deadline) {
			return os.ErrDeadlineExceeded
		}
	}
	s.ready = false
	return nil
}

// Read reads what has arrived. It waits first, since an answer is hardly ever there before somebody waits for it.
func (s *socket) Read(b []byte) (int, error) {
	for {
		if !s.ended {
			if err := s.wait(); err != nil {
				return 0, err
			}
		}
		n, err := syscall.Read(s.fd, b)
		switch {
		case err == syscall.EINTR:
			s.ready = true
			continue
		case err == syscall.EAGAIN && !s.ended:
			continue
		case err != nil:
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
		case n == 0:
			return 0, io.EOF
		}
		s.ready = s.ready || n == len(b) // what did not fit is there already, and no event will tell of it
		return n, nil
	}
}

// Write writes all of b; n is what the system has taken.
func (s *socket) Write(b []byte) (n int, err error) {
	for n < len(b) {
		took, err := syscall.Write(s.fd, b[n:])
		switch err {
		case nil:
			n += took
		case syscall.EINTR:
		case syscall.EAGAIN:
			if err := s.wait(); err != nil {
				return n, err
			}
		default:
			return n, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", err)}
		}
	}
	return n, nil
}

// SetDeadline sets the time at which reads and writes give up.
func (s *socket) SetDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

// descriptor returns the socket's number.
func (s *socket) descriptor() uintptr { return uintptr(s.fd) }

// Close closes the connection.
func (s *socket) Close() error {
	delete(s.loop.sockets, int32(s.fd))
	return syscall.Close(s.fd)
}
