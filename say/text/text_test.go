package text

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"lastitem/testkit"
)

// A form follows the integer before it, whatever verbs stand between; texts without forms are those of fmt.
func TestSprintf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		format string
		args   []any
		want   string
	}{
		{"%d [order is|orders are] left", []any{1}, "1 order is left"},
		{"%d [order is|orders are] left", []any{0}, "0 orders are left"},
		{"%d [order|orders] for %d [unit|units]", []any{int64(2), uint8(1)}, "2 orders for 1 unit"},
		{"%d%% of %s: %d [unit|units]", []any{1, "x", 3}, "1% of x: 3 units"},
		{"%d%%: %d [unit|units], %d [order|orders]", []any{5, 1, 2}, "5%: 1 unit, 2 orders"},
		{"%d of %d [claim|claims] in %v", []any{2, 1, time.Minute}, "2 of 1 claim in 1m0s"},
		{"only %[2]d [row|rows] of %[1]d [row|rows]", []any{2, 1}, "only 1 row of 2 rows"},
		{"%d file[|s], %5.1f [a|b]", []any{1, 2.0}, "1 file,   2.0 a"},
		{"%s [one|many]", []any{"[a|b]"}, "[a|b] many"},
		{"[sic] %s | [x]", []any{"y"}, "[sic] y | [x]"},
	} {
		testkit.Is(t, Sprintf(tt.format, tt.args...), tt.want, "Sprintf(%q, %v)", tt.format, tt.args)
	}
	err := Text{En: "%d [claim|claims] failed", Zh: "%d 条声明失败"}.Errorf(1)
	testkit.Is(t, err.Error(), "1 claim failed", "Errorf()")
	testkit.Is(t, ErrorIn("en", err), "1 claim failed", "ErrorIn()")
}

// An error follows the language however deep it is wrapped, and still wraps what it is made of.
func TestErrorIn(t *testing.T) {
	t.Parallel()
	gone := Text{En: "no shop at %s: %w", Zh: "%s 没有商店：%w"}.Errorf("here", fs.ErrNotExist)
	nested := Text{En: "%s is wrong: %w", Zh: "%s不对：%w"}.Errorf(Text{En: "this", Zh: "这"}, fmt.Errorf("--url: %w", gone))
	for _, tt := range []struct {
		err    error
		en, zh string
	}{
		{nil, "", ""},
		{errors.New("plain"), "plain", "plain"},
		{gone, "no shop at here: file does not exist", "here 没有商店：file does not exist"},
		{fmt.Errorf("--url: %w", gone), "--url: no shop at here: file does not exist",
			"--url: here 没有商店：file does not exist"},
		{nested, "this is wrong: --url: no shop at here: file does not exist", "这不对：--url: here 没有商店：file does not exist"},
		{errors.Join(gone, nested), gone.Error() + "\n" + nested.Error(),
			"here 没有商店：file does not exist\n这不对：--url: here 没有商店：file does not exist"},
	} {
		testkit.Is(t, ErrorIn("en", tt.err), tt.en, "ErrorIn(en)")
		testkit.Is(t, ErrorIn("zh", tt.err), tt.zh, "ErrorIn(zh)")
		if tt.err != nil && tt.err.Error() != tt.en {
			t.Errorf("Error() = %q, want %q", tt.err, tt.en)
		}
		if errors.Is(tt.err, fs.ErrNotExist) != (tt.en != "" && tt.en != "plain") {
			t.Errorf("%q wraps fs.ErrNotExist: %t", tt.en, errors.Is(tt.err, fs.ErrNotExist))
		}
	}
}
