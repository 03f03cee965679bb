package loadtest

import (
	"fmt"

	"lastitem/say/text"
)

// fault builds an error of this package.
func fault(said text.Text, args ...any) error {
	return fmt.Errorf("loadtest: %w", said.Errorf(args...))
}
