package keeper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// spec asks the keeper to start one child; a line of JSON on its stdin. See [Command].
type spec struct {
	ID   int      `json:"id"` // chosen by the parent, returned in every event about this child
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // on top of the keeper's own
	Dir  string   `json:"dir"`
	Log  string   `json:"log"` // file that takes stdout and stderr
	As   *Account `json:"as,omitempty"`
	// GraceMS is Command.Grace in milliseconds.
	GraceMS int `json:"grace_ms,omitempty"`
	// LastCommand: run it when everything else has ended, for a limited time, and without events.
	LastCommand bool `json:"last_command,omitempty"`
}

// Account is a user of this machine and a group, as whom only root can run a child.
type Account struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// lastCommandLimit is how long a last command may take.
const lastCommandLimit = 30 * time.Second

// event is what the keeper says; a line of JSON on its stdout.
type event struct {
	Event string `json:"event"` // "dir", "started", "failed", "exited"
	ID    int    `json:"id,omitempty"`
	Dir   string `json:"dir,omitempty"`   // dir: the private directory
	PID   int    `json:"pid,omitempty"`   // started: the process, which is also its group
	Error string `json:"error,omitempty"` // failed: why; exited: how
}

// child is a running process and the group of the same number.
type child struct {
	cmd   *exec.Cmd
	grace time.Duration
	done  chan struct{} // closed once the process has been waited for
}

// ExitedWell is how a child ended that returned 0.
const ExitedWell = "exit status 0"

// owner is the keeper itself, in its process.
type owner struct {
	dir          string
	lastCommands []spec

	out sync.Mutex // one event at a time
	enc *json.Encoder

	mu       sync.Mutex
	children map[int]*child
}

// Run is the body of 'shop keeper'. It makes a private temporary directory, starts the children that in asks for,
// each in its own process group, and reports to out. When in ends, as it does however the parent dies, it ends the
// groups, removes the directory and returns.
//
// It must be called from the main goroutine of a process of its own: it takes over signals and its thread. SIGINT,
// SIGTERM and SIGHUP are ignored, since only the parent knows when the children are no longer needed.
func Run(in io.Reader, out io.Writer) error {
	// Caught and dropped, not SIG_IGN, which the children would inherit. SIGPIPE is here because otherwise a write to a
	// dead parent would end the keeper before it has cleaned up.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	// A death signal follows the thread that forked, not the process: all children come from this one.
	runtime.LockOSThread()
	raiseFileLimit()
	adopt()

	dir, err := os.MkdirTemp(tempBase(), "lastitem-")
	if err != nil {
		_ = json.NewEncoder(out).Encode(event{Event: "failed", Error: err.Error()})
		return fmt.Errorf("stack: make a private directory: %w", err)
	}
	k := &owner{dir: dir, enc: json.NewEncoder(out), children: map[int]*child{}}
	k.say(event{Event: "dir", Dir: dir})
	requests := json.NewDecoder(bufio.NewReader(in))
	for {
		var s spec
		if err = requests.Decode(&s); err != nil {
			break
		}
		if s.LastCommand {
			k.lastCommands = append(k.lastCommands, s)
			continue
		}
		k.start(s)
	}
	k.endAll()
	k.endOrphans()
	for _, s := range k.lastCommands {
		k.lastCommand(s)
	}
	if !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("stack: keeper's requests: %w", err), remove(dir))
	}
	return remove(dir)
}

// say reports an event. An error means that the parent is gone, and then in ends too.
func (k *owner) say(e event) {
	k.out.Lock()
	defer k.out.Unlock()
	_ = k.enc.Encode(e)
}

// start starts what s asks for, reports that, and reports again when it has ended.
func (k *owner) start(s spec) {
	k.mu.Lock()
	c, err := k.spawn(s)
	if err != nil {
		k.mu.Unlock()
		k.say(event{Event: "failed", ID: s.ID, Error: err.Error()})
		return
	}
	pid := c.cmd.Process.Pid
	k.children[s.ID] = c
	k.mu.Unlock()
	k.say(event{Event: "started", ID: s.ID, PID: pid})
	go func() {
		err := c.cmd.Wait()
		killGroup(pid) // what the child itself started and left behind
		k.mu.Lock()
		delete(k.children, s.ID)
		k.bury()
		k.mu.Unlock()
		close(c.done)
		how := ExitedWell
		if err != nil {
			how = err.Error()
		}
		k.say(event{Event: "exited", ID: s.ID, PID: pid, Error: how})
	}()
}

// spawn forks. It runs on the thread that Run locked, see there.
func (k *owner) spawn(s spec) (*child, error) {
	if len(s.Argv) == 0 {
		return nil, errors.New("empty command")
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	// TMPDIR: a killed child's files, such as an installer's temporary tables, go with the directory.
	cmd.Env = slices.Concat(os.Environ(), []string{"TMPDIR=" + k.dir}, s.Env)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	cmd.SysProcAttr = childAttr()
	if s.As != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.As.UID, Gid: s.As.GID}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, grace: time.Duration(s.GraceMS) * time.Millisecond, done: make(chan struct{})}, nil
}

// endAll ends the groups: first those with a grace, so that a replica can finish its requests while its backends are
// still there, then the rest. It returns when every child has been waited for.
func (k *owner) endAll() {
	k.mu.Lock()
	all := make([]*child, 0, len(k.children))
	for _, c := range k.children {
		all = append(all, c)
	}
	k.mu.Unlock()

	var grace time.Duration
	for _, c := range all {
		if c.grace > 0 {
			// SIGINT, not SIGTERM: a replica then does not drain. It need not: the balancer ends as well. SIGCONT too: a stopped
			// process sees no other signal but SIGKILL.
			_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT)
			_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGCONT)
			grace = max(grace, c.grace)
		}
	}
	// One deadline for all of them: they end side by side.
	deadline := time.After(grace)
waiting:
	for _, c := range all {
		if c.grace == 0 {
			continue
		}
		select {
		case <-c.done:
		case <-deadline:
			break waiting
		}
	}
	for _, c := range all {
		select {
		case <-c.done: // its number may belong to somebody else by now
		default:
			killGroup(c.cmd.Process.Pid)
		}
	}
	for _, c := range all {
		<-c.done
	}
}

// bury waits for the orphans that have ended, and returns the others. The caller has the mutex, so that no orphan is a
// child just made.
func (k *owner) bury() (living []int) {
	for _, pid := range childrenOf(os.Getpid()) {
		ours := func(c *child) bool { return c.cmd.Process.Pid == pid }
		if slices.ContainsFunc(slices.Collect(maps.Values(k.children)), ours) {
			continue
		}
		if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got == 0 && err == nil {
			living = append(living, pid)
		}
	}
	return living
}

// childrenOf returns the processes that a process has started or adopted, where /proc shows it.
func childrenOf(parent int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for pid := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(pid); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// endOrphans ends what children left behind outside their groups, and what that started: it becomes ours when its
// parent ends.
func (k *owner) endOrphans() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range 1000 { // however deep; each round ends those whose parents ended in the round before
		all := k.bury()
		if all == nil {
			return
		}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// lastCommand runs a last child and waits for it; its output goes to its log, which is not kept.
func (k *owner) lastCommand(s spec) {
	c, err := k.spawn(s)
	if err != nil {
		return
	}
	limit := time.AfterFunc(lastCommandLimit, func() { killGroup(c.cmd.Process.Pid) })
	defer limit.Stop()
	_ = c.cmd.Wait()
}

// killGroup ends every process of a group; one that is already gone is no error.
func killGroup(pid int) {
	if pid > 1 { // -0 and -1 would mean us, or everybody
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// remove removes the private directory. A killed process may go on writing for a moment, so that it is not empty yet.
func remove(dir string) error {
	for try := 1; ; try++ {
		err := os.RemoveAll(dir)
		if err == nil || try == 100 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// raiseFileLimit gives the children as many file descriptors as the system allows, within reason: nginx alone needs two
// per client. Go raises its own limit but, unless asked like this, hands the old one to its children.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return
	}
	limit.Cur = min(limit.Max, 65536)
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// tempBase is the directory for private directories: the system's, or /tmp where that name is so long that a socket
// below it would not fit into a socket address (104 bytes on macOS).
func tempBase() string {
	base := os.TempDir()
	if len(filepath.Join(base, "lastitem-0123456789", "mysql.sock")) > 100 {
		return "/tmp"
	}
	return base
}
