package localstack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// NginxServer describes an nginx that runs in addition to the parts of a stack, in front of two replicas.
type NginxServer struct {
	Name string // unique in the stack
	// First gets every request. If First fails, Next gets the request again, provided that the
	// configuration lets nginx send it again. Both are host:port.
	First, Next string
	// Resend makes nginx send a POST again that it has already sent (proxy_next_upstream ... non_idempotent). Otherwise it has the rule of
	// 'shop up': a POST goes to the next replica only if nothing was sent to the first.
	Resend bool
	// Read is how long a replica may take to answer.
	Read time.Duration
}

// SpawnNginx starts an nginx and returns when it passes requests on. An error: no nginx was found, or it did not start.
func (s *Stack) SpawnNginx(ctx context.Context, o NginxServer) (*Running, error) {
	path, err := Find(Nginx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, strings.ReplaceAll(o.Name, " ", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("localstack: %w", err)
	}
	number, _ := version(path, "-v")
	file := filepath.Join(dir, "nginx.conf")
	e := edge{targets: []string{o.First, o.Next + " backup"}, keepFailing: true, read: fmt.Sprintf("%dms", o.Read.Milliseconds())}
	if o.Resend {
		e.again = "error timeout non_idempotent"
	}
	sv := server{
		name: o.Name,
		url:  func(addr string) string { return "http://" + addr },
		setup: func(addr string) ([]string, error) {
			e.listen = addr
			conf, err := renderNginx(e)
			if err != nil {
				return nil, err
			}
			return nginxArgv(path, number, dir, file), os.WriteFile(file, conf, 0o600)
		},
		ready:  func(ctx context.Context, addr string) error { return answers200(ctx, addr, "/readyz") },
		mortal: true,
	}
	started, err := s.launch(ctx, sv)
	if err != nil {
		return nil, err
	}
	x, _ := s.partNamed(o.Name)
	return &Running{Addr: started.Addr, PID: started.PID, p: x.p}, nil
}
