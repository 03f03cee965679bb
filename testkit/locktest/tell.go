package locktest

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names its scripts by it
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/testkit/testenv"
)

// Line is a line of what a test tells: who, what, and what came of it.
func Line(who, what, came string) string {
	return strings.TrimRight(fmt.Sprintf("%-2s %-66s %s", who, what, came), " ")
}

// Answer writes an answer of Redis as redis-cli would, more or less.
func Answer(got any, err error) string {
	if errors.Is(err, redis.Nil) {
		return "(nil)"
	}
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), " script: ") // which script it is comes behind
		return "(error) " + text
	}
	if m, ok := got.(map[any]any); ok {
		for k, v := range m {
			return fmt.Sprintf("[%v %v]", k, v)
		}
	}
	return fmt.Sprint(got)
}

// Telling says that somebody reads the output of one test, as with the documents' go test -v -run '^TestX$'. A run of
// many tests is not told: nobody reads it, and it would be slower.
func Telling() bool {
	one := flag.Lookup("test.run").Value.String()
	return testing.Verbose() && one != "" && !strings.Contains(one, "|")
}

// Say tells what follows from the commands that are told.
func Say(t testing.TB, format string, args ...any) {
	if Telling() {
		_, _ = fmt.Fprintln(t.Output(), Line("=>", fmt.Sprintf(format, args...), ""))
	}
}

// Tell has a test tell each command that a client sends, with its answer and the time since now, which in a bubble is
// the bubble's.
func Tell(t testing.TB, c *redis.Client) {
	if !Telling() {
		return
	}
	n := &teller{t: t, begin: time.Now()}
	t.Cleanup(func() { // before the client closes: what is in the background may go on after the test
		n.mu.Lock()
		defer n.mu.Unlock()
		n.t = nil
	})
	c.AddHook(n)
}

// teller is the hook of Tell.
type teller struct {
	testenv.Hook
	begin time.Time
	mu    sync.Mutex
	told  int
	t     testing.TB // nil when the test is over
}

// enoughLines is how many commands of a client are told: a renewal or a poll repeats without end.
const enoughLines = 24

var (
	gists  sync.Map // the first clauses of scripts, by the name that Redis gives a script
	ofGist = regexp.MustCompile(`^-- ([^.:;]*)`)
	random = regexp.MustCompile(`\b([0-9a-f]{8})[0-9a-f-]{20,}`) // an owner
)

func (n *teller) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		n.tell(cmd, err)
		return err
	}
}

func (n *teller) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		err := next(ctx, all)
		for _, cmd := range all {
			n.tell(cmd, cmd.Err())
		}
		return err
	}
}

func (n *teller) tell(cmd redis.Cmder, err error) {
	words := make([]string, 0, len(cmd.Args()))
	for _, arg := range cmd.Args() {
		words = append(words, fmt.Sprint(arg))
	}
	switch cmd.Name() {
	case "hello", "client": // the client introduces itself
		return
	case "eval":
		gist := strings.ReplaceAll(ofGist.FindString(words[1]), "\n-- ", " ")
		sha := fmt.Sprintf("%x", sha1.Sum([]byte(words[1]))) //nolint:gosec // see above
		gists.Store(sha, gist)
		words[1] = sha
		fallthrough
	case "evalsha":
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // it is sent again as an EVAL
			return
		}
		if gist, known := gists.Load(words[1]); known {
			words[1] = gist.(string)
		}
		words = append([]string{"EVALSHA", "'" + words[1] + "'"}, words[3:]...)
	default:
		words[0] = strings.ToUpper(words[0])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told++; n.told == enoughLines+1 && n.t != nil {
		_, _ = fmt.Fprintln(n.t.Output(), Line("", "and so on", ""))
	}
	if n.t != nil && n.told <= enoughLines {
		at := fmt.Sprintf("%8.3fs", time.Since(n.begin).Seconds())
		what := random.ReplaceAllString(strings.Join(words, " "), "$1…")
		_, _ = fmt.Fprintln(n.t.Output(), Line(at, what, random.ReplaceAllString(Answer(came(cmd), err), "$1…")))
	}
}

// came is the answer to a command, with which the command's own text ends.
func came(cmd redis.Cmder) string {
	text := cmd.String()
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}
