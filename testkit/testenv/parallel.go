package testenv

import (
	"flag"
	"os"
	"testing"
)

// Main runs the tests of a package for its TestMain, four at a time, because most of them wait for servers, leases and
// time-outs rather than for the CPU. A -parallel flag on the command line has precedence.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
