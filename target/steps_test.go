package target

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
)

// visited serves a shop and returns how a buyer reaches it.
func visited(t *testing.T, routes map[string]http.HandlerFunc) Via {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, serve := range routes {
		mux.HandleFunc(pattern, serve)
	}
	s := testkit.Serve(t, mux)
	once := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	base := s.URL + "/shop"
	return Via{base, func(c Call) (Reply, error) { return c.Send(t.Context(), once, base) }}
}

// A buyer keeps his cookies and what he has saved, follows redirects until he buys, and sends values as the place where
// they stand demands.
func TestVisit(t *testing.T) {
	t.Parallel()
	type seen struct{ Cookie, Form, Path, Token, JSON, Key string }
	var got seen
	via := visited(t, map[string]http.HandlerFunc{
		"GET /shop/login": func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "sid", Value: "s1", Path: "/"})
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<input name="csrf" value="a&amp;b&quot;c">`)
		},
		"POST /shop/login": func(w http.ResponseWriter, r *http.Request) {
			got.Form = r.FormValue("csrf") + " " + r.FormValue("sku")
			http.SetCookie(w, &http.Cookie{Name: "sid", Value: "s2", Path: "/"})
			http.Redirect(w, r, "/shop/home", http.StatusFound)
		},
		"GET /shop/home": func(w http.ResponseWriter, r *http.Request) {
			got.Cookie = r.Header.Get("Cookie")
			w.Header().Set("X-Token", "t1")
			fmt.Fprint(w, `{"next": "/shop/pay/7?x=1", "cart": "a/b c", "none": null}`)
		},
		"POST /shop/carts/{id}": func(_ http.ResponseWriter, r *http.Request) {
			got.Path, got.Token = r.URL.EscapedPath(), r.Header.Get("Authorization")
		},
		"POST /shop/pay": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got.JSON, got.Key = string(body), r.Header.Get("X-Key")
			http.Redirect(w, r, "/shop/thanks/ORD-1", http.StatusSeeOther)
		},
	})
	f := &Foreign{
		Products: []string{"S&K 1"}, KeyHeader: "X-Key", Session: []string{"Authorization: Bearer {{token}}"},
		Arrange: []Step{
			{Method: "GET", Path: "/login", Save: []Save{{Name: "csrf", Regex: `name="csrf" value="([^"]*)"`}}},
			{Method: "POST", Path: "/login", Type: formType, Body: "csrf={{csrf}}&sku={{product}}",
				Save: []Save{{Name: "token", Header: "X-Token"}, {Name: "cart", JSON: "/cart"}, {Name: "sid", Cookie: "sid"}}},
		},
		Buy: []Step{{Method: "POST", Path: "/carts/{{cart}}"},
			{Method: "POST", Path: "/pay", Type: jsonType, Body: `{"csrf":"{{csrf}}","sid":"{{sid}}"}`}},
		OK: Meaning{Location: "/thanks/"}, Order: Save{Header: "Location", Regex: "/thanks/(.*)"},
	}
	v := f.NewVisit(0, 1, "k1")
	testkit.Must(t, v.Arrange(via))
	r, said, err := v.Buy(t.Context(), via, true)
	testkit.Must(t, err)
	testkit.Same(t, got, seen{"sid=s2", `a&b"c S&K 1`, "/shop/carts/a%2Fb%20c", "Bearer t1",
		`{"csrf":"a\u0026b\"c","sid":"s2"}`, "k1"}, "the service has seen")
	if said.Outcome != judge.OK || said.OrderID != "ORD-1" || r.Status != http.StatusSeeOther || f.Promises(r) {
		t.Errorf("Buy() = %+v, %+v, want the order of the redirect, sold", r, said)
	}
}

// A refusal while a buyer is arranged is kept; any other surprise shows the answer. An earlier step of buy may refuse,
// and a repetition sends the last step alone.
func TestVisitOutcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		arrange, a, b   int // the statuses of a step of arrange, and of the two of buy
		wrong           string
		outcome         judge.Outcome
		code            api.Code
		twice           string // what two attempts sent
		refused, stolen Meaning
	}{
		{"sold", 200, 200, 200, "", judge.OK, "", "abb", Meaning{}, Meaning{}},
		{"refused in arrange", 410, 0, 0, "", judge.Declined, CodeTurned, "", Meaning{Statuses: []int{410}}, Meaning{}},
		{"surprise", 500, 0, 0, "step 1 of arrange, POST /arrange: it answered 500 said 500", "", "", "", Meaning{},
			Meaning{}},
		{"earlier step refuses", 200, 409, 0, "", judge.Refused, api.SoldOut, "aa", Meaning{}, Meaning{Statuses: []int{409}}},
		{"earlier step fails", 200, 500, 0, "", judge.Unknown, "http_500", "aa", Meaning{}, Meaning{}},
		{"last step fails", 200, 302, 500, "", judge.Unknown, "http_500", "abb", Meaning{}, Meaning{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sent := ""
			says := func(name string, status int) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					sent += name
					w.WriteHeader(status)
					fmt.Fprint(w, "said ", status)
				}
			}
			via := visited(t, map[string]http.HandlerFunc{"/shop/arrange": says("", tt.arrange), "/shop/a": says("a", tt.a),
				"/shop/b": says("b", tt.b)})
			f := &Foreign{Arrange: []Step{{Method: "POST", Path: "/arrange", Refused: tt.refused}},
				Buy: []Step{{Method: "POST", Path: "/a", Refused: tt.stolen}, {Method: "POST", Path: "/b"}},
				OK:  Meaning{Statuses: []int{200}}}
			v := f.NewVisit(1, 1, "")
			if err := v.Arrange(via); tt.wrong != "" {
				testkit.Is(t, fmt.Sprint(err), tt.wrong, "error")
				_, said, err := v.Buy(t.Context(), via, true)
				testkit.Is(t, err == nil && said.Outcome == judge.Declined, true, "who was not arranged buys nothing: %v", said)
				return
			}
			for range 2 {
				_, said, err := v.Buy(t.Context(), via, true)
				testkit.Must(t, err)
				if said.Outcome != tt.outcome || said.Code != tt.code {
					t.Errorf("Buy() = %s %s, want %s %s", said.Outcome, said.Code, tt.outcome, tt.code)
				}
			}
			testkit.Is(t, sent, tt.twice, "two attempts")
		})
	}
}

// The later answer is the outcome; without it in time, nobody knows.
func TestVisitThen(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]judge.Outcome{"sold": judge.OK, "cancelled": judge.Refused, "open": judge.Unknown} {
		asked := 0
		via := visited(t, map[string]http.HandlerFunc{
			"/shop/buy": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, `{"job": 7, "order_id": "o-7"}`)
			},
			"/shop/jobs/7": func(w http.ResponseWriter, _ *http.Request) {
				state := map[bool]string{true: "open", false: says}[asked == 0]
				asked++
				fmt.Fprintf(w, `{"state": %q}`, state)
			},
		})
		f := &Foreign{Buy: []Step{{Method: "POST", Path: "/buy", Save: []Save{{Name: "job", JSON: "/job"}},
			Sold: Meaning{Statuses: []int{202}}}},
			Then: &Then{Step{Method: "GET", Path: "/jobs/{{job}}"}, Meaning{Body: "sold|cancelled"}, 150 * time.Millisecond},
			OK:   Meaning{Body: "sold"}, Refused: Meaning{Body: "cancelled"}}
		_, said, err := f.NewVisit(1, 1, "").Buy(t.Context(), via, true)
		testkit.Must(t, err)
		if said.Outcome != want || want == judge.OK && said.OrderID != "o-7" {
			t.Errorf("%s: outcome %s, order %q, want %s", says, said.Outcome, said.OrderID, want)
		}
	}
}

// A story holds the steps, but of their headers only the names; they are given again.
func TestStepsInAStory(t *testing.T) {
	t.Parallel()
	f := Foreign{Session: []string{"Authorization: Bearer {{token}}"}, Buy: []Step{{Method: "POST", Path: "/buy",
		Headers: []string{"X-Api-Key: s3cret"}}}}
	said, err := json.Marshal(f)
	testkit.Must(t, err)
	if strings.Contains(string(said), "s3cret") || !strings.Contains(string(said), "{{token}}") {
		t.Errorf("the story has %s", said)
	}
	var back Foreign
	testkit.Must(t, json.Unmarshal(said, &back))
	none := func(string) (string, bool) { return "", false }
	testkit.Same(t, back.Complete(nil, nil, none), []string{"--header X-Api-Key ($X_API_KEY)"}, "missing")
	missing := back.Complete(nil, []string{"x-api-key: again"}, none)
	testkit.Is(t, missing == nil && slices.Equal(back.Buy[0].Headers, []string{"x-api-key: again"}), true, "completed")
}

// A command resets with the values of a schedule; one that fails shows what it printed.
func TestResetCommands(t *testing.T) {
	t.Parallel()
	out := t.TempDir() + "/out"
	f := &Foreign{Request: "POST /buy", ResetCmd: []string{"sh -c 'echo {{product}} {{stock}} >" + out + "'"}}
	r, err := f.At("http://127.0.0.1:1", "", "")
	testkit.Must(t, err)
	_, err = r.Prepare(t.Context(), 7, 5)
	testkit.Must(t, err)
	testkit.Is(t, string(testkit.Read(t, out)), "7 5\n", "what the command got")
	f.ResetCmd = []string{"sh -c 'echo no such table; exit 1'"}
	if _, err = r.Prepare(t.Context(), 7, 5); err == nil || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("Prepare() = %v, want what the command printed", err)
	}
	f.ResetCmd = []string{"mysql -h {{mysql_host}}"}
	if _, err := f.At("http://127.0.0.1:1", "", ""); err == nil || !strings.Contains(err.Error(), "{{mysql_host}}") {
		t.Errorf("At() = %v, want a load test to know no {{mysql_host}}", err)
	}
}
