package guest

import (
	"errors"
	"strings"
	"testing"
)

// An environment that describes no guest is refused, with the reason.
func TestFromEnvironmentRefuses(t *testing.T) {
	for text, want := range map[string]string{"": "unexpected end", "{}": "it has no prefix",
		`{"Prefix":7}`: "cannot unmarshal"} {
		t.Setenv(Env, text)
		_, err := FromEnvironment()
		var bad *AddressError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("FromEnvironment() of %q = %v, want %q", text, err, want)
		}
	}
	t.Setenv(Env, `{"Prefix":"p:"}`)
	if g, err := FromEnvironment(); err != nil || g.Prefix != "p:" {
		t.Errorf("FromEnvironment() = %+v, %v, want the guest", g, err)
	}
}
