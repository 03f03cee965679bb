package api

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

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
		{fmt.Errorf("--url: %w", gone), "--url: no shop at here: file does not exist", "--url: here 没有商店：file does not exist"},
		{nested, "this is wrong: --url: no shop at here: file does not exist", "这不对：--url: here 没有商店：file does not exist"},
		{errors.Join(gone, nested), gone.Error() + "\n" + nested.Error(), "here 没有商店：file does not exist\n这不对：--url: here 没有商店：file does not exist"},
	} {
		if got := ErrorIn("en", tt.err); got != tt.en {
			t.Errorf("ErrorIn(en) = %q, want %q", got, tt.en)
		}
		if got := ErrorIn("zh", tt.err); got != tt.zh {
			t.Errorf("ErrorIn(zh) = %q, want %q", got, tt.zh)
		}
		if tt.err != nil && tt.err.Error() != tt.en {
			t.Errorf("Error() = %q, want %q", tt.err, tt.en)
		}
		if errors.Is(tt.err, fs.ErrNotExist) != (tt.en != "" && tt.en != "plain") {
			t.Errorf("%q wraps fs.ErrNotExist: %t", tt.en, errors.Is(tt.err, fs.ErrNotExist))
		}
	}
}
