package wire_test

import (
	"testing"

	"go.uber.org/goleak"

	"lastitem/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.IgnoreServers()) }
