package command

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lastitem/bench/figure"
)

// Files are the files for a program's measurements; "" = not written.
type Files struct{ JSON, SVG string }

// Flags defines the flags for the files; svg is the description of the picture.
func (f *Files) Flags(flags *flag.FlagSet, svg string) {
	flags.StringVar(&f.JSON, "json", "", "write everything that was measured to this `file`")
	flags.StringVar(&f.SVG, "svg", "", svg)
}

// Document is the JSON.
type Document struct {
	Facts    any             `json:"environment"`
	Settings any             `json:"settings"`
	Outcomes any             `json:"scenarios"`
	Targets  []figure.Target `json:"targets"`
}

// Write writes the requested files. If there is no picture, it prints which scenarios the picture needs.
func (n Name) Write(errOut io.Writer, f Files, d Document, picture []byte, needed string) error {
	var failed error
	if f.JSON != "" {
		text, err := json.MarshalIndent(d, "", "  ")
		failed = errors.Join(err, n.save(errOut, f.JSON, append(text, '\n')))
	}
	switch {
	case f.SVG == "":
	case picture == nil:
		fmt.Fprintf(errOut, "%s: no picture: it shows %s, not all of it measured\n", n, needed)
	default:
		failed = errors.Join(failed, n.save(errOut, f.SVG, picture))
	}
	return failed
}

// save writes a file, and makes missing directories.
func (n Name) save(errOut io.Writer, name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(errOut, "%s: wrote %s\n", n, name)
	return nil
}
