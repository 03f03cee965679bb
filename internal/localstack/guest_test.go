package localstack_test

import (
	"errors"
	"strings"
	"testing"

	"lastitem/internal/localstack"
)

// An environment that describes no guest is refused, with the reason.
func TestFromEnvironmentRefuses(t *testing.T) {
	for text, want := range map[string]string{"": "unexpected end", "{}": "it has no prefix", `{"Prefix":7}`: "cannot unmarshal"} {
		t.Setenv(localstack.Env, text)
		_, err := localstack.FromEnvironment()
		var bad *localstack.AddressError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("FromEnvironment() of %q = %v, want %q", text, err, want)
		}
	}
	t.Setenv(localstack.Env, `{"Prefix":"p:"}`)
	if g, err := localstack.FromEnvironment(); err != nil || g.Prefix != "p:" {
		t.Errorf("FromEnvironment() = %+v, %v, want the guest", g, err)
	}
}
