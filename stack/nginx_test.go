package stack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestNginxConfIsValid(t *testing.T) {
	t.Parallel()
	argv, err := stack.NginxCheck(testenv.Nginx(t), t.TempDir())
	testkit.Must(t, err)
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[warn]") {
		t.Errorf("nginx -t: %v\n%s", err, out)
	}
}

// A replica that hangs up in the middle of a POST: with the rule Resend, nginx sends the POST to
// the next one; otherwise it answers 502 itself.
func TestSpawnNginxSendsAgain(t *testing.T) {
	t.Parallel()
	testenv.Nginx(t)
	first := testkit.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
	}))
	next := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "next")
	}))
	s := testenv.OwnWith(t, stack.Options{Only: []string{}})
	for name, want := range map[bool]int{true: http.StatusOK, false: http.StatusBadGateway} {
		n, err := s.SpawnNginx(t.Context(), stack.NginxServer{
			Name: fmt.Sprintf("nginx %t", name), First: address(first), Next: address(next), Resend: name, Read: time.Minute,
		})
		testkit.Must(t, err)
		testkit.Is(t, post(t.Context(), t, "http://"+n.Addr+"/deduct_stock"), want, "resend %t: POST answers", name)
	}
}

func address(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// post returns the status of the answer.
func post(ctx context.Context, t *testing.T, to string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
	testkit.Must(t, err)
	res, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}
