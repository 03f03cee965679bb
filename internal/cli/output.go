package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// Output says in which form a command gives its result, and where: the flags --output and --out, the same in every
// command.
type Output struct {
	Form string // of the flag; of the result that goes to stdout or, where both flags are given, to the file
	File string // of the flag; "" and "-" = stdout

	StdoutForm string // "" = the file alone gets the result
	FileForm   string // "" = there is no file

	Usual  string // a JSON file written beside the text if no flag says where the result goes; "" = none
	Secret bool   // files are for the user alone: the result has passwords in it

	lang    string    // of the help
	forms   []string  // the command's, the default first
	besides []*beside // further files, each with a flag of its own
	chosen  bool      // a flag says the form
}

// Add declares the flags.
func (o *Output) Add(cmd *cobra.Command, lang string, forms ...string) {
	o.forms, o.lang = forms, lang
	help := fmt.Sprintf(text.Of("write the result to FILE: in the form of -o; without -o in the form of its ending "+
		"(%s), beside the text on stdout").In(lang), o.endings())
	cmd.Flags().StringVarP(&o.Form, "output", "o", forms[0], text.Of("form of the result: ").In(lang)+
		OrList(forms).In(lang))
	cmd.Flags().StringVar(&o.File, "out", o.Usual, help)
	FileFlag(cmd.Flags(), "out")
	err := cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return forms, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // the flag is there, and registered once
		panic(err)
	}
	cmd.PreRunE = Run(func(cmd *cobra.Command, _ []string) error { return o.check(cmd) })
}

// endings lists the endings of the command's forms other than text.
func (o *Output) endings() string {
	var all []string
	for ending, form := range endings {
		if form != Text && slices.Contains(o.forms, form) {
			all = append(all, ending)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// check decides on the forms, and makes sure that the file can be written to, before there is a result to lose.
func (o *Output) check(cmd *cobra.Command) error {
	if !slices.Contains(o.forms, o.Form) {
		return Usage(text.Of("--output %q: want %s"), o.Form, OrList(o.forms))
	}
	o.chosen = o.chosen || cmd.Flags().Changed("output")
	o.StdoutForm = o.Form
	file := o.File
	elsewhere := slices.ContainsFunc(o.besides, func(b *beside) bool { return b.file != "" })
	if !cmd.Flags().Changed("out") && (o.chosen || elsewhere) {
		o.File, file = "", "" // the usual file stands beside the text alone
	}
	switch ending := endings[strings.ToLower(filepath.Ext(file))]; {
	case file == "" || file == "-":
		o.File = ""
	case o.chosen, ending == "":
		o.FileForm, o.StdoutForm = o.Form, ""
	case !slices.Contains(o.forms, ending):
		return Usage(text.Of("--out %s: this command writes %s; choose one with --output"), file, OrList(o.forms))
	default:
		o.FileForm, o.StdoutForm = ending, Text
		if ending == Text {
			o.StdoutForm = ""
		}
	}
	if err := Writable(o.File); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, b := range o.besides {
		if b.file == "-" {
			return Usage(text.Of("--%s -: want a file; on stdout it is -o %s"), b.form, b.form)
		}
		if err := Writable(b.file); err != nil {
			return fmt.Errorf("--%s: %w", b.form, err)
		}
	}
	return nil
}

// Text says whether stdout gets the text for people, so that notes may stand beside it.
func (o *Output) Text() bool { return o.StdoutForm == Text }

// Notes is where remarks beside the result go: below one another with it, unless a program reads the result.
func (o *Output) Notes(cmd *cobra.Command) io.Writer {
	if o.Text() {
		return cmd.OutOrStdout()
	}
	return cmd.ErrOrStderr()
}

// Language is the language of the result: that of --lang, except that output for programs alone is English unless the
// flag was given.
func (o *Output) Language(cmd *cobra.Command, lang string) string {
	forms := []string{o.StdoutForm, o.FileForm}
	for _, b := range o.besides {
		if b.file != "" {
			forms = append(forms, b.form)
		}
	}
	read := func(form string) bool { return form == Text || form == Markdown || form == HTML }
	if !slices.ContainsFunc(forms, read) && !cmd.Flags().Changed("lang") {
		return "en"
	}
	return lang
}

// Write has the result written to stdout, to the file, or to both.
func (o *Output) Write(cmd *cobra.Command, result func(w io.Writer, form string) error) error {
	var errs []error
	if o.StdoutForm != "" {
		stdout := cmd.OutOrStdout()
		if o.Secret {
			stdout = redact.Plain(stdout)
		}
		errs = append(errs, result(stdout, o.StdoutForm))
	}
	files := o.besides
	if o.File != "" {
		files = append([]*beside{{form: o.FileForm, file: o.File}}, files...)
	}
	for _, f := range files {
		if f.file == "" {
			continue
		}
		err := f.write(result, o.Secret)
		if err == nil && o.Text() {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", f.form, f.file)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// AddBesides declares the flags --html FILE and --markdown FILE, or those of the forms given.
func (o *Output) AddBesides(cmd *cobra.Command, forms ...string) {
	for _, form := range forms {
		b := &beside{form: form}
		o.besides = append(o.besides, b)
		cmd.Flags().StringVar(&b.file, form, "", besideHelp[form].In(o.lang))
		FileFlag(cmd.Flags(), form)
	}
}

// Gives says whether the result is written in that form anywhere.
func (o *Output) Gives(form string) bool {
	for _, b := range o.besides {
		if b.form == form && b.file != "" {
			return true
		}
	}
	return o.StdoutForm == form || o.FileForm == form
}
