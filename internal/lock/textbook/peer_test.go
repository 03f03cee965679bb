package textbook_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/internal/testenv"
)

// The clients of a peer, by their lockWatchdogTimeout. With a time-out of an hour, only a message wakes a waiter in time.
const (
	hourly = "hourly"
	quick  = "quick"

	quickTTL = 9 * time.Second
)

// peer is a Java process with a real Redisson.
type peer struct {
	t  *testing.T
	in io.Writer

	mu      sync.Mutex
	answers map[string]chan string // by client and thread
}

// newPeer starts a peer on the test's server, with the jars of a directory.
func newPeer(t *testing.T, s *testenv.RedisServer, jars string) *peer {
	t.Helper()
	o := s.Client.Options()
	cmd := exec.CommandContext(t.Context(), "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars+"/*",
		"testdata/RedissonPeer.java", hourly+"=3600000", fmt.Sprint(quick, "=", quickTTL.Milliseconds()))
	cmd.Env = append(os.Environ(), "PEER_ADDRESS=redis://"+o.Addr, fmt.Sprint("PEER_DATABASE=", o.DB))
	if o.Password != "" {
		cmd.Env = append(cmd.Env, "PEER_PASSWORD="+o.Password)
	}
	if o.Username != "" {
		cmd.Env = append(cmd.Env, "PEER_USERNAME="+o.Username)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	p := &peer{t: t, answers: map[string]chan string{}}
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(err, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p.in = in
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		_ = cmd.Wait()
		t.Fatalf("the peer says %q, and\n%s", lines.Text(), said.String())
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			word := strings.SplitN(lines.Text(), " ", 3)
			p.answer(word[0] + " " + word[1]) <- word[2]
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // this ends the process
		<-read
		_ = cmd.Wait()
	})
	return p
}

func (p *peer) answer(who string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[who] == nil {
		p.answers[who] = make(chan string, 16)
	}
	return p.answers[who]
}

// start lets a thread of a client run an operation, and returns the channel of its answer.
func (p *peer) start(client, thread, operation, key string, wait time.Duration) <-chan string {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, client, thread, operation, key, wait.Milliseconds()); err != nil {
		p.t.Fatal(err)
	}
	return p.answer(client + " " + thread)
}

// do is start, and waits for the answer.
func (p *peer) do(client, thread, operation, key string) string {
	p.t.Helper()
	return <-p.start(client, thread, operation, key, 0)
}

// want fails unless the answer is want.
func (p *peer) want(client, thread, operation, key, want string) {
	p.t.Helper()
	if got := p.do(client, thread, operation, key); got != want {
		p.t.Fatalf("Redisson's %s of %s = %s, want %s", operation, key, got, want)
	}
}
