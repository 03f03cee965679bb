package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// terminalFor opens a terminal of 100 columns: the side of the user, and that of the program.
func terminalFor(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		testkit.Missing(t, "terminal", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})
	}
	if err == nil {
		program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	testkit.Must(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

// shown is what the lines of a terminal show after all that was written to it.
func shown(written string) []string {
	lines := []string{""}
	for _, part := range regexp.MustCompile(`\r|\n|\x1b\[K|\x1b\[[0-9;]*m|[^\r\n\x1b]+|\x1b`).FindAllString(written, -1) {
		last := &lines[len(lines)-1]
		switch {
		case part == "\n":
			lines = append(lines, "")
		case part == "\x1b[K": // it comes after \r only
			*last = ""
		case part == "\r" || strings.HasPrefix(part, "\x1b["):
		default:
			*last += part
		}
	}
	return lines
}

// processesOf are the processes that run a program.
func processesOf(path string) (all []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.TrimSuffix(exe, " (deleted)") == path {
			all = append(all, link)
		}
	}
	return all
}

// tty is a program on a terminal.
type tty struct {
	cmd  *exec.Cmd
	user *os.File
	said testkit.Log
}

// start runs the command on the terminal, as its foreground.
func (p *tty) start(t *testing.T, program *os.File) {
	t.Helper()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = program, program, program
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testkit.Must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() { _, _ = io.Copy(&p.said, p.user) }()
}

// await waits until the terminal shows what the pattern matches.
func (p *tty) await(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	testkit.NoError(t, pattern, func() error {
		if said := p.said.String(); !re.MatchString(said) {
			return fmt.Errorf("the terminal shows\n%q", said)
		}
		return nil
	})
}

// interrupted runs a command on a terminal, presses Ctrl-C when it shows what during matches, and returns the lines
// that it leaves when after is there. The command leaves the terminal as it was, an empty line under the cursor, and no
// process or file.
func interrupted(t *testing.T, during, after string, args ...string) []string {
	t.Helper()
	shop, files := program(t), t.TempDir()
	user, program := terminalFor(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	testkit.Must(t, err)
	p := &tty{user: user, cmd: exec.Command(shop, append(args, "--lang", "en")...)}
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "TERM=")
	}), "TERM=xterm", "TMPDIR="+files)
	p.start(t, program)
	p.await(t, `\r\x1b\[K`+during)
	if _, err := user.WriteString("\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	testkit.Is(t, p.cmd.ProcessState.ExitCode(), cli.ExitInterrupted, "exit code")
	p.await(t, after+`\r?\n`)
	lines := shown(p.said.String())
	if last := lines[len(lines)-1]; last != "" {
		t.Errorf("the cursor is left after %q, want an empty line", last)
	}
	now, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil || *now != *before || strings.Contains(p.said.String(), "\x1b[?") {
		t.Errorf("the settings of the terminal are %+v, want as before %+v, and no mode switched (%v)", now, before, err)
	}
	if left := regexp.MustCompile(`(?m)^.*(/s  (accepted|about) |\^C).*$`).FindString(strings.Join(lines,
		"\n")); left != "" {
		t.Errorf("the line of progress is left on the terminal: %q", left)
	}
	wantNothingLeft(t, shop, files)
	return lines
}

// The lab has one line, below the lines of the cells that are through. Ctrl-C leaves the cells so far.
func TestLabTerminal(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	all := strings.Join(interrupted(t, `\[[1-9]\d*/\d+\] \S+ (redis|sql|etcd) (threads|replicas)  \d+ of \d+ schedules  `+
		`[▁▂▃▄▅▆▇█·]{2,} \d+\.\d/s  about \d`,
		`shop: interrupted: .*`, "lab", "--fault", "threads,replicas"), "\n")
	if strings.Contains("\n"+all, "\n[") {
		t.Errorf("the line of progress is left on the terminal:\n%s", all)
	}
	for _, want := range []string{"as claimed, ", "\nInterrupted: the other cells have not been played to their end.",
		" cells, "} {
		if !strings.Contains(all, want) {
			t.Errorf("the terminal shows no %q:\n%s", want, all)
		}
	}
}

// On a terminal a run has one line, with a sparkline. Ctrl-C leaves the result so far, also in the files.
func TestDemoTerminal(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.html")
	all := strings.Join(interrupted(t, `\[1/2\] noop \d+\.\ds +\d+%  [▁▂▃▄▅▆▇█·]{2,} \d+/s  accepted \d+`,
		`html: .*page\.html`,
		"demo", "--backend", "embedded", "--replicas", "2", "--mode", "noop,lua-lock", "--stock", "1000000", "--requests",
		"2000000",
		"--out", "", "--html", page), "\n")
	if !strings.Contains(all, "interrupted: the figures are partial") {
		t.Errorf("the terminal shows:\n%s\nwant the result so far", all)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text),
		"Interrupted: the figures are partial.") {
		t.Errorf("the page of an interrupted run: %v, %d bytes, want one that says so", err, len(text))
	}
}

// wantNothingLeft waits until no process of the program and no file in the directory of temporary files is left.
func wantNothingLeft(t *testing.T, program, dir string) {
	t.Helper()
	testkit.NoError(t, "nothing is left", func() error {
		left, err := os.ReadDir(dir)
		testkit.Must(t, err)
		if processes := processesOf(program); len(left)+len(processes) > 0 {
			return fmt.Errorf("there are the files %v and processes %v", left, processes)
		}
		return nil
	})
}
