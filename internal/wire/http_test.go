package wire_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lastitem/internal/wire"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
	}))
	t.Cleanup(server.Close)
	addr := tap(t, &r, strings.TrimPrefix(server.URL, "http://"), wire.HTTP)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "/v1/kv/lock?acquire=1", "owner 1"}, {http.MethodGet, "/v1/kv/lock", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	want(t, []string{"PUT /v1/kv/lock?acquire=1 'owner 1'", "GET /v1/kv/lock"}, recorded(t, &r))
}
