package handoff_test

import (
	"testing"

	"lastitem/internal/lock/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }
