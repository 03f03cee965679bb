package console

import "errors"

var (
	errNotFound = errors.New("not found")
	errMethod   = errors.New("this path does not take that method; the header Allow has those that it takes")
)

// invalid is a mistake in the client's request.
type invalid struct{ error }
