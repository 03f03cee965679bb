package locktest

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"lastitem/testkit/testenv"
)

// LostAnswers is a client hook that lets commands of one name reach the server and loses the next n answers.
type LostAnswers struct {
	testenv.Hook
	Name string
	Left atomic.Int64
}

// Take says whether the answer to this command is to be lost.
func (s *LostAnswers) Take(name string) bool {
	return strings.EqualFold(name, s.Name) && s.Left.Add(-1) >= 0
}

// ProcessHook implements redis.Hook.
func (s *LostAnswers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		// decided when the command is sent: earlier commands keep their answers, however late these come
		taken := s.Take(cmd.Name())
		err := next(ctx, cmd)
		if taken {
			err = &net.OpError{Op: "read", Err: io.EOF}
			cmd.SetErr(err)
		}
		return err
	}
}

// SendHook is a client hook that decides how commands with the name Name are sent; "" stands for every command. A
// command that is sent always arrives, though perhaps late.
type SendHook struct {
	testenv.Hook
	Name string
	Send func(ctx context.Context, send func() error) error
}

// ProcessHook implements redis.Hook.
func (a SendHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a.Name != "" && !strings.EqualFold(cmd.Name(), a.Name) {
			return next(ctx, cmd)
		}
		err := a.Send(ctx, func() error { return next(context.WithoutCancel(ctx), cmd) })
		cmd.SetErr(err)
		return err
	}
}
