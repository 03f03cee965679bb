package postmortem

import (
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
)

var (
	wantTime = text.Of("a time: RFC 3339, 2006-01-02 15:04:05 (of --zone), or seconds, ms, µs or ns since 1970")
	wantUnit = text.Of("a number of units")
	wantMore = text.Of("a number of units from 1")
	wantMS   = text.Of("milliseconds")
	wantWord = text.Of("an HTTP status, or ok, sold_out, busy or unknown; --ok-body, --refused-body and --declined-body " +
		"tell other words")
)

// The layouts of times; a fraction of the second may follow in each.
var (
	zoned = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 " +
		"-0700 MST"}
	unzoned = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006/01/02 15:04:05"}
)

// timeOf reads a time. Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, as their size says.
func timeOf(said string, zone *time.Location) (at time.Time, ok bool) {
	whole, part, _ := strings.Cut(said, ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
		unit := int64(time.Second)
		for n >= 1e11 && unit > 1 && n >= int64(1e11)*(int64(time.Second)/unit) {
			unit /= 1000
		}
		fraction := 0.0
		if part != "" {
			fraction, err = strconv.ParseFloat("0."+part, 64)
		}
		return time.Unix(0, n*unit+int64(fraction*float64(unit))).UTC(), err == nil && n >= 1e8
	}
	for _, layout := range zoned {
		if at, err := time.Parse(layout, said); err == nil {
			return at, true
		}
	}
	for _, layout := range unzoned {
		if at, err := time.ParseInLocation(layout, said, zone); err == nil {
			return at, true
		}
	}
	return at, false
}

// unitsOf reads a number of units, which may be written with decimals, as a column of type DECIMAL is.
func unitsOf(said string) (n int64, ok bool) {
	whole, part, _ := strings.Cut(said, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	return n, err == nil && strings.Trim(part, "0") == ""
}

// words are outcomes in words.
var words = map[string]judge.Outcome{
	"ok": judge.OK, "sold": judge.OK, "success": judge.OK, "accepted": judge.OK, "true": judge.OK,
	"sold_out": judge.Refused, "soldout": judge.Refused, "refused": judge.Refused, "out_of_stock": judge.Refused,
	"busy": judge.Declined, "declined": judge.Declined, "rate_limited": judge.Declined,
	"": judge.Unknown, "0": judge.Unknown, "unknown": judge.Unknown, "timeout": judge.Unknown, "error": judge.Unknown,
	"failed": judge.Unknown, "false": judge.Unknown,
}

// answerOf is what the outcome of a request means: a status by the description of the answers, with the body if there
// is one; a word by one of the expressions for bodies, or as it is. Where JMeter got no answer it writes a sentence.
func answerOf(said, body string, answers *target.Foreign) (a target.Answer, ok bool) {
	if status, err := strconv.Atoi(said); err == nil && status >= 100 && status < 600 {
		return answers.Read(target.Reply{Status: status, Body: []byte(body)}), true
	}
	for _, m := range []target.Meaning{answers.Refused, answers.Declined, answers.OK} {
		if m.Body == "" {
			continue
		}
		a = answers.Read(target.Reply{Status: m.Statuses[0], Body: []byte(said)})
		if a.Outcome != judge.Unknown {
			return a, true
		}
	}
	outcome, ok := words[strings.ReplaceAll(strings.ToLower(said), " ", "_")]
	if outcome == judge.Declined {
		a.Code = api.LockBusy
	}
	a.Outcome = outcome
	if strings.HasPrefix(said, "Non HTTP response") {
		a.Outcome, ok = judge.Unknown, true
	}
	return a, ok
}
