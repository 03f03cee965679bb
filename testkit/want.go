package testkit

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Is reports a value that is not the wanted one, as "Deduct(3) = 2, want 1". Texts are quoted.
func Is[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got == want {
		return
	}
	form := "%s = %+v, want %+v"
	if reflect.ValueOf(got).Kind() == reflect.String {
		form = "%s = %q, want %q"
	}
	t.Errorf(form, fmt.Sprintf(what, args...), got, want)
}

// IsError reports an error that is not the wanted one, nor wraps it.
func IsError(t testing.TB, got, want error, what string, args ...any) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s = %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// Same reports how a value differs from the wanted one.
func Same(t testing.TB, got, want any, what string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}
