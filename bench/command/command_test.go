package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lastitem/bench/figure"
	"lastitem/testkit"
)

func TestMainExitCodes(t *testing.T) {
	ends := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	interrupted := func(ctx context.Context) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Second):
			return nil
		}
	}
	for _, test := range []struct {
		name  string
		parse error
		run   func(context.Context) error
		want  int
	}{
		{"well", nil, ends(nil), 0},
		{"help", flag.ErrHelp, ends(errors.New("ran")), 0},
		{"usage", errors.New("bad flag"), ends(nil), 2},
		{"failure", nil, ends(errors.New("no server")), 1},
		{"signal", nil, interrupted, 130},
	} {
		parse := func(args []string, _ io.Writer) (string, error) { return args[0], test.parse }
		run := func(ctx context.Context, o string, _, _ io.Writer) error {
			if o != "flag" {
				return fmt.Errorf("run with %q", o)
			}
			return test.run(ctx)
		}
		testkit.Is(t, Main("test", []string{"flag"}, parse, run), test.want, "%s: exit code", test.name)
	}
}

func TestPick(t *testing.T) {
	all := []string{"one", "two", "three"}
	of := func(s string) (string, bool) { return s, s != "two" }
	for _, test := range []struct{ names, picked, unknown string }{
		{"", "one three", ""},
		{"three,two", "two three", ""},
		{"two, four two five", "two", "four five"},
	} {
		picked, unknown := Pick(all, test.names, of)
		if !slices.Equal(picked, strings.Fields(test.picked)) || !slices.Equal(unknown, strings.Fields(test.unknown)) {
			t.Errorf("Pick(%q) = %q, %q, want %s; %s", test.names, picked, unknown, test.picked, test.unknown)
		}
	}
}

func TestWrite(t *testing.T) {
	var said bytes.Buffer
	dir := filepath.Join(t.TempDir(), "new")
	files := Files{JSON: filepath.Join(dir, "x.json"), SVG: filepath.Join(dir, "x.svg")}
	document := Document{Facts: 1, Settings: 2, Outcomes: []int{3}, Targets: []figure.Target{}}
	testkit.Must(t, Name("test").Write(&said, files, document, nil, "a and b"))
	if _, err := os.Stat(files.SVG); err == nil || !strings.Contains(said.String(), "test: no picture: it shows a and b") {
		t.Errorf("without a picture it wrote one, or said %q", said.String())
	}
	text := testkit.Read(t, files.JSON)
	var read map[string]any
	if err := json.Unmarshal(text, &read); err != nil || len(read) != 4 || read["environment"] != 1.0 {
		t.Errorf("the JSON is %s, %v", text, err)
	}
	testkit.Must(t, Name("test").Write(&said, Files{SVG: files.SVG}, document, []byte("<svg/>"), ""))
	if picture, err := os.ReadFile(files.SVG); err != nil || string(picture) != "<svg/>" {
		t.Errorf("the picture is %q, %v", picture, err)
	}
	if err := Name("test").Write(&said, Files{JSON: t.TempDir()}, document, nil, ""); err == nil {
		t.Error("writing over a directory: no error")
	}
}
