package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// The forms that a result can have. Each command offers some of them.
const (
	Text     = "text"
	JSON     = "json"
	CSV      = "csv"
	Markdown = "markdown"
	Bench    = "bench" // lines of Go benchmarks, for benchstat
	HTML     = "html"  // a page in one file
)

// endings are the forms that the ending of a file name stands for.
var endings = map[string]string{".txt": Text, ".json": JSON, ".csv": CSV, ".md": Markdown,
	".bench": Bench, ".html": HTML}

// fileValue is a string whose placeholder in the help is FILE.
type fileValue struct{ value pflag.Value }

func (v fileValue) Set(s string) error { return v.value.Set(s) }
func (v fileValue) String() string     { return v.value.String() }
func (fileValue) Type() string         { return "FILE" }

// FileFlag makes FILE the placeholder of a flag in the help.
func FileFlag(set *pflag.FlagSet, name string) {
	set.Lookup(name).Value = fileValue{set.Lookup(name).Value}
}

// makeDir makes the directory of a file, if the one above it is there: a mistyped path leaves no directories, least of
// all at the root of the file system.
func makeDir(path string) error {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	_, err = os.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if above := filepath.Dir(dir); above != filepath.Dir(above) {
		err = os.Mkdir(dir, 0o755)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return text.Of("there is no directory %s; make it first").Errorf(dir)
	}
	return err
}

// ToFile writes a file, and makes its directory. A secret file can be read by the user alone, even one that was there
// and could be read by all.
func ToFile(path string, secret bool, write func(w io.Writer) error) error {
	if err := makeDir(path); err != nil {
		return err
	}
	mode := fs.FileMode(0o666)
	if secret {
		mode = 0o600
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); secret && err == nil && info.Mode().IsRegular() {
		if err := f.Chmod(mode); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if secret {
		return errors.Join(write(f), f.Close())
	}
	return errors.Join(redacted(f, write), f.Close())
}

// redacted writes a result as a whole, since a writer of a page writes an address in parts.
func redacted(w io.Writer, write func(w io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	_, failed := redact.Writer(w).Write(b.Bytes())
	return errors.Join(err, failed)
}

// Writable makes sure that a file can be written to; "" and "-" are none.
func Writable(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if err := makeDir(path); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // a pipe has one writer only, and a link may lead to one
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if isNew {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// schema is the number of the form of results in JSON. It rises when a field goes, or gets another name, unit or
// meaning, but not when one is added: see docs/reports.md.
const schema = 1

// WriteJSON writes v, an object, as JSON that people can read too. The schema is its first field.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "{\n  \"schema\": %d,\n%s", schema, bytes.TrimPrefix(b.Bytes(), []byte("{\n")))
	return err
}
