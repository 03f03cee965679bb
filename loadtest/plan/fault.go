package plan

import (
	"fmt"

	"lastitem/say/text"
)

// Fault builds an error of the load generator.
func Fault(said text.Text, args ...any) error {
	return fmt.Errorf("loadtest: %w", said.Errorf(args...))
}
