package faultlab

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/api"
)

// Where stderr is no terminal, the lab says now and then how far it is, without a control character, and the lines of others are left alone.
func TestStatusLineElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		line := NewStatusLine(&out, "zh")
		cell := Cell{Mode: "lua-lock", Store: api.SQL, Fault: api.Pause}
		for n := range 61 { // a schedule a second
			line.Tally(Tally{Cells: 4, Done: 1, Schedules: n + 1, Expected: 121, Cell: cell})
			if n == 40 {
				fmt.Fprintln(line, "a cell")
			}
			time.Sleep(time.Second)
		}
		line.Clear()
		spark := "  " + strings.Repeat("█", lineRates) + " 1.0/秒"
		want := "[1/4] lua-lock sql pause  调度 31/121" + spark + "  约剩 1m30s\na cell\n[1/4] lua-lock sql pause  调度 61/121" + spark + "  约剩 1m0s\n"
		if out.String() != want {
			t.Errorf("the lab said:\n%s\nwant:\n%s", out.String(), want)
		}
	})
}
