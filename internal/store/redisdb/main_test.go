package redisdb_test

import (
	"testing"

	"lastitem/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
