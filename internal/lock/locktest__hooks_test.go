package lock_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// swallow is a client hook that lets commands of one name reach the server and loses the next n answers.
type swallow struct {
	name string
	left atomic.Int64
}

// takes says whether the answer to this command is to be lost.
func (s *swallow) takes(name string) bool {
	return strings.EqualFold(name, s.name) && s.left.Add(-1) >= 0
}

func (s *swallow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *swallow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *swallow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		taken := s.takes(cmd.Name()) // when it is sent: what was sent before is not meant, however late its answer is
		err := next(ctx, cmd)
		if taken {
			err = &net.OpError{Op: "read", Err: io.EOF}
			cmd.SetErr(err)
		}
		return err
	}
}

// around is a client hook that decides how commands of one name are sent; "" is every command. What is sent arrives, however late.
type around struct {
	name string
	f    func(ctx context.Context, send func() error) error
}

func (a around) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a.name != "" && !strings.EqualFold(cmd.Name(), a.name) {
			return next(ctx, cmd)
		}
		err := a.f(ctx, func() error { return next(context.WithoutCancel(ctx), cmd) })
		cmd.SetErr(err)
		return err
	}
}
