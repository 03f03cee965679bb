package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// The forms that a result can have. Each command offers some of them.
const (
	formText     = "text"
	formJSON     = "json"
	formCSV      = "csv"
	formMarkdown = "markdown"
	formBench    = "bench" // lines of Go benchmarks, for benchstat
	formHTML     = "html"  // a page in one file
)

// endings are the forms that the ending of a file name stands for.
var endings = map[string]string{".txt": formText, ".json": formJSON, ".csv": formCSV, ".md": formMarkdown,
	".bench": formBench, ".html": formHTML}

// output says in which form a command gives its result, and where: the flags --output and --out, the same in every
// command.
type output struct {
	lang string // of the help

	form string // of the flag; of the result that goes to stdout or, where both flags are given, to the file
	file string // of the flag; "" and "-" = stdout

	forms []string // the command's, the default first
	usual string   // a JSON file written beside the text if no flag says where the result goes; "" = none

	besides []*beside // further files, each with a flag of its own
	secret  bool      // files are for the user alone: the result has passwords in it

	chosen     bool   // a flag says the form
	stdoutForm string // "" = the file alone gets the result
	fileForm   string // "" = there is no file
}

// add declares the flags.
func (o *output) add(cmd *cobra.Command, lang string, forms ...string) {
	o.forms, o.lang = forms, lang
	help := fmt.Sprintf(text.Of("write the result to FILE: in the form of -o; without -o in the form of its ending "+
		"(%s), beside the text on stdout").In(lang), o.endings())
	cmd.Flags().StringVarP(&o.form, "output", "o", forms[0], text.Of("form of the result: ").In(lang)+
		orList(forms).In(lang))
	cmd.Flags().StringVar(&o.file, "out", o.usual, help)
	cmd.Flags().Lookup("out").Value = fileValue{cmd.Flags().Lookup("out").Value}
	err := cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return forms, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // the flag is there, and registered once
		panic(err)
	}
	cmd.PreRunE = run(func(cmd *cobra.Command, _ []string) error { return o.check(cmd) })
}

// fileValue is a string whose placeholder in the help is FILE.
type fileValue struct {
	value interface {
		Set(string) error
		String() string
		Type() string
	}
}

func (v fileValue) Set(s string) error { return v.value.Set(s) }
func (v fileValue) String() string     { return v.value.String() }
func (fileValue) Type() string         { return "FILE" }

// endings lists the endings of the command's forms other than text.
func (o *output) endings() string {
	var all []string
	for ending, form := range endings {
		if form != formText && slices.Contains(o.forms, form) {
			all = append(all, ending)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// check decides on the forms, and makes sure that the file can be written to, before there is a result to lose.
func (o *output) check(cmd *cobra.Command) error {
	if !slices.Contains(o.forms, o.form) {
		return usage(text.Of("--output %q: want %s"), o.form, orList(o.forms))
	}
	o.chosen = o.chosen || cmd.Flags().Changed("output")
	o.stdoutForm = o.form
	file := o.file
	elsewhere := slices.ContainsFunc(o.besides, func(b *beside) bool { return b.file != "" })
	if !cmd.Flags().Changed("out") && (o.chosen || elsewhere) {
		o.file, file = "", "" // the usual file stands beside the text alone
	}
	switch ending := endings[strings.ToLower(filepath.Ext(file))]; {
	case file == "" || file == "-":
		o.file = ""
	case o.chosen, ending == "":
		o.fileForm, o.stdoutForm = o.form, ""
	case !slices.Contains(o.forms, ending):
		return usage(text.Of("--out %s: this command writes %s; choose one with --output"), file, orList(o.forms))
	default:
		o.fileForm, o.stdoutForm = ending, formText
		if ending == formText {
			o.stdoutForm = ""
		}
	}
	if err := writable(o.file); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, b := range o.besides {
		if b.file == "-" {
			return usage(text.Of("--%s -: want a file; on stdout it is -o %s"), b.form, b.form)
		}
		if err := writable(b.file); err != nil {
			return fmt.Errorf("--%s: %w", b.form, err)
		}
	}
	return nil
}

// text says whether stdout gets the text for people, so that notes may stand beside it.
func (o *output) text() bool { return o.stdoutForm == formText }

// notes is where remarks beside the result go: below one another with it, unless a program reads the result.
func (o *output) notes(cmd *cobra.Command) io.Writer {
	if o.text() {
		return cmd.OutOrStdout()
	}
	return cmd.ErrOrStderr()
}

// language is the language of the result: that of --lang, except that output for programs alone is English unless the
// flag was given.
func (o *output) language(cmd *cobra.Command, lang string) string {
	forms := []string{o.stdoutForm, o.fileForm}
	for _, b := range o.besides {
		if b.file != "" {
			forms = append(forms, b.form)
		}
	}
	read := func(form string) bool { return form == formText || form == formMarkdown || form == formHTML }
	if !slices.ContainsFunc(forms, read) && !cmd.Flags().Changed("lang") {
		return "en"
	}
	return lang
}

// write has the result written to stdout, to the file, or to both.
func (o *output) write(cmd *cobra.Command, result func(w io.Writer, form string) error) error {
	var errs []error
	if o.stdoutForm != "" {
		stdout := cmd.OutOrStdout()
		if o.secret {
			stdout = redact.Plain(stdout)
		}
		errs = append(errs, result(stdout, o.stdoutForm))
	}
	files := o.besides
	if o.file != "" {
		files = append([]*beside{{form: o.fileForm, file: o.file}}, files...)
	}
	for _, f := range files {
		if f.file == "" {
			continue
		}
		err := f.write(result, o.secret)
		if err == nil && o.text() {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", f.form, f.file)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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

// toFile writes a file, and makes its directory. A secret file can be read by the user alone, even one that was there
// and could be read by all.
func toFile(path string, secret bool, write func(w io.Writer) error) error {
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

// writable makes sure that a file can be written to; "" and "-" are none.
func writable(path string) error {
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

// writeIndented writes v, an object, as JSON that people can read too. The schema is its first field.
func writeIndented(w io.Writer, v any) error {
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
