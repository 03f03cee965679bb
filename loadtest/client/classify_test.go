package client

import (
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

func TestClassifyEveryCode(t *testing.T) {
	t.Parallel()
	for code, facts := range api.Codes {
		want := Reading{Outcome: audit.Declined, Kind: Refused, Code: string(code)}
		switch {
		case code == api.SoldOut:
			want.Outcome = audit.Refused
		case facts.Happened == api.NoForNow:
			want.Again = true
		case facts.Happened == api.Unknown:
			want.Outcome, want.Kind, want.Again = audit.Unknown, Failed, true
		}
		got := Classify(&Answer{Status: facts.Status, Problem: true, Code: code, Sent: true})
		if got != want {
			t.Errorf("classify(%s) = %+v, want %+v", code, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	unknown := func(code string) Reading {
		return Reading{Outcome: audit.Unknown, Kind: Failed, Code: code, Again: true}
	}
	tests := []struct {
		name   string
		answer Answer
		want   Reading
	}{
		{"ok", Answer{Status: 200, Sent: true, OrderID: "o"}, Reading{Outcome: audit.OK, Kind: Accepted, Code: "ok"}},
		{"created", Answer{Status: 201, Sent: true}, unknown("http_201")},
		{"html", Answer{Status: 502, Sent: true}, unknown("http_502")},
		{"code without problem+json", Answer{Status: 409, Sent: true, Code: api.SoldOut}, unknown("http_409")},
		{"problem under a good status", Answer{Status: 202, Problem: true, Sent: true, Code: api.SoldOut}, unknown("http_202")},
		{"problem without a code", Answer{Status: 409, Problem: true, Sent: true}, unknown("http_409")},
		{"code nobody knows", Answer{Status: 409, Problem: true, Sent: true, Code: "odd"}, unknown("http_409")},
		{"timeout", Answer{Sent: true, Err: ErrTimeout}, unknown("timeout")},
		{"reset", Answer{Sent: true, Err: ErrReset}, unknown("reset")},
		{"half an ok", Answer{Status: 200, Sent: true, Err: ErrEOF}, unknown("eof")},
		{"unreadable ok", Answer{Status: 200, Sent: true, Err: ErrBadAnswer}, unknown("bad_answer")},
		{"not connected", Answer{Err: ErrRefused}, Reading{Outcome: audit.Declined, Kind: Failed, Code: "refused_connection", Again: true}},
		{"dial timed out", Answer{Err: ErrTimeout}, Reading{Outcome: audit.Declined, Kind: Failed, Code: "refused_connection", Again: true}},
	}
	for _, tt := range tests {
		if got := Classify(&tt.answer); got != tt.want {
			t.Errorf("%s: classify() = %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestClassifyForeign(t *testing.T) {
	t.Parallel()
	read := ByStatus([]int{200, 201}, []int{409, 410})
	tests := map[int]audit.Outcome{
		200: audit.OK, 201: audit.OK, 409: audit.Refused, 410: audit.Refused, 400: audit.Unknown, 500: audit.Unknown, 302: audit.Unknown,
	}
	for status, want := range tests {
		if got := read(&Answer{Status: status, Sent: true}); got.Outcome != want {
			t.Errorf("status %d = %+v, want %s", status, got, want)
		}
	}
	if got := read(&Answer{Status: 200, Sent: true, Err: ErrEOF}); got.Outcome != audit.Unknown {
		t.Errorf("half a 200 = %+v, want unknown", got)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, "120": 2 * time.Minute, "Fri, 20 Nov 2026 12:00:00 GMT": 0, "-1": 0, "99999999999999999999": 0,
	} {
		if got := retryAfter(text); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}
