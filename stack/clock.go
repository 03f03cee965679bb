package stack

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"lastitem/stack/keeper"
)

// envClock names the file with a clock's offset; the library reads it.
const envClock = "LASTITEM_CLOCK"

//go:embed clock/clock.c
var clockSource []byte

// A Clock is a wall clock that can be set while servers run. It applies to processes that were started with its Env and
// use the system's C library; a static binary, such as etcd, keeps the machine's clock. Monotonic clocks do not move.
type Clock struct {
	file   string
	shared string // the library

	mu     sync.Mutex
	offset time.Duration
}

// NewClock returns a clock that shows the machine's time. name is unique among the clocks of the stack. An error: no C
// compiler was found, it could not build the library, or this is not Linux; it says what to install.
func (s *Stack) NewClock(ctx context.Context, name string) (*Clock, error) {
	s.clocks.once.Do(func() { s.clocks.file, s.clocks.err = buildClock(ctx, s.procs.keeper) })
	if s.clocks.err != nil {
		return nil, s.clocks.err
	}
	c := &Clock{file: filepath.Join(s.Dir, strings.ReplaceAll(name, " ", "-")+".clock"), shared: s.clocks.file}
	err := c.write()
	return c, err
}

// buildClock compiles the library into the private directory.
func buildClock(ctx context.Context, owner *keeper.Keeper) (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.New("stack: the clock of a server can be set on Linux only")
	}
	compiler, err := Find(Compiler)
	if err != nil {
		return "", err
	}
	source, library := filepath.Join(owner.Dir, "clock.c"), filepath.Join(owner.Dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return "", fmt.Errorf("stack: %w", err)
	}
	// -z defs: a function that the C library lacks must be an error here, not in the server.
	argv := []string{compiler, "-shared", "-fPIC", "-O2", "-Wl,-z,defs", "-o", library, source}
	return library, owner.Run(ctx, "clock build", keeper.Command{Argv: argv})
}

// Env returns the environment variables for a process that is to use this clock.
func (c *Clock) Env() []string { return []string{"LD_PRELOAD=" + c.shared, envClock + "=" + c.file} }

// Offset returns how far the clock is ahead of the machine's clock; negative = behind.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// Set makes the clock show the machine's time plus offset, at once.
func (c *Clock) Set(offset time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = offset
	return c.write()
}

// write writes the offset in place: processes have mapped the file.
func (c *Clock) write() error {
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.offset)), 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("stack: %w", err)
	}
	return nil
}
