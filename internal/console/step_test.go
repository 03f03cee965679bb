package console

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// fakeStepper plays every schedule of the lesson "l".
type fakeStepper struct{}

func (fakeStepper) Lessons() any { return []string{"l"} }

func (fakeStepper) Close() error { return nil }

func (fakeStepper) Play(_ context.Context, lesson, moves string) (any, error) {
	switch lesson {
	case "l":
		return map[string]string{"moves": moves}, nil
	case "broken":
		return nil, errors.New("no redis-server")
	}
	return nil, fs.ErrNotExist
}

// The routes of the Step page need the same session as the other controls.
func TestStep(t *testing.T) {
	t.Parallel()
	serve := func(s Stepper) *httptest.Server {
		c := New(Options{Token: token, Files: fstest.MapFS{}, Stepper: s}, &fakeDriver{})
		t.Cleanup(c.Close)
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		return server
	}
	with, without := serve(fakeStepper{}), serve(nil)
	for name, tt := range map[string]struct {
		at                         *httptest.Server
		method, path, body, header string
		want                       int
		says                       string
	}{
		"lessons":           {with, "GET", "lessons", "", "", 200, `["l"]`},
		"a schedule":        {with, "POST", "step", `{"lesson":"l","moves":"ab"}`, "", 200, `{"moves":"ab"}`},
		"no such lesson":    {with, "POST", "step", `{"lesson":"m"}`, "", 404, "not found"},
		"no servers":        {with, "POST", "step", `{"lesson":"broken"}`, "", 502, "no redis-server"},
		"an unknown field":  {with, "POST", "step", `{"lesson":"l","to":"x"}`, "", 400, "unknown field"},
		"a wrong token":     {with, "POST", "step", `{"lesson":"l"}`, "Authorization: Bearer x", 401, "no session"},
		"a foreign page":    {with, "POST", "step", `{"lesson":"l"}`, "Origin: http://elsewhere.example", 403, "another origin"},
		"no proxies":        {without, "POST", "step", `{"lesson":"l"}`, "", 404, "local stack"},
		"here":              {with, "GET", "state", "", "", 200, `"steps":true`},
		"elsewhere":         {without, "GET", "state", "", "", 200, `"steps":false`},
		"lessons elsewhere": {without, "GET", "lessons", "", "", 404, "local stack"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.at.URL+"/console/api/"+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if key, value, ok := strings.Cut(tt.header, ": "); ok {
			req.Header.Set(key, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != tt.want || !strings.Contains(string(body), tt.says) {
			t.Errorf("%s: %s %s, want %d and %q", name, res.Status, body, tt.want, tt.says)
		}
	}
}
