package target

import (
	"lastitem/say/text"
)

// UnfitError says why what a source shows is no basis for a verdict: it is not all there is, or not only what was
// asked for. It has the row or the answer that shows it.
type UnfitError struct{ Err error }

func (e *UnfitError) Error() string { return e.Err.Error() }
func (e *UnfitError) Unwrap() error { return e.Err }

func unfit(said text.Text, args ...any) error { return &UnfitError{said.Errorf(args...)} }
