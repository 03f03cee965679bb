package replica

import (
	"testing"

	"lastitem/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
