package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lastitem/say/text"
)

// language is the language of what the command line args gets to read: --lang, else the locale. It is looked for before
// the flags are parsed, since help and the errors of the parser follow it too. A language that there is not is refused
// later, by checkLang.
func language(args []string, getenv func(string) string) string {
	lang := localeLanguage(getenv)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		value, given := strings.CutPrefix(arg, "--lang=")
		if arg == "--lang" && i+1 < len(args) {
			value, given = args[i+1], true
		}
		if given && slices.Contains(text.Languages, value) {
			lang = value
		}
	}
	return lang
}

// localeLanguage is the language of the locale that the environment names, if reports are written in it, else English;
// also English on a terminal of another character set than UTF-8 (zh_CN.GBK), which would show our Chinese as other
// characters.
func localeLanguage(getenv func(string) string) string {
	locale := func(category string) string {
		return strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv(category), getenv("LANG")))
	}
	_, charset, named := strings.Cut(locale("LC_CTYPE"), ".")
	charset, _, _ = strings.Cut(charset, "@")
	if !strings.HasPrefix(locale("LC_MESSAGES"), "zh") || named && charset != "utf-8" && charset != "utf8" {
		return "en"
	}
	return "zh"
}

// addLang declares --lang, whose default is what lang holds.
func addLang(set *pflag.FlagSet, lang *string) {
	set.StringVar(lang, "lang", *lang, text.Of("language of results, help and errors: en or zh (default: by LC_ALL, "+
		"LC_MESSAGES or LANG)").In(*lang))
	set.Lookup("lang").DefValue = "" // what it is here would differ from one machine's help to another's
}

// checkLang refuses a language that no text is written in.
func checkLang(set *pflag.FlagSet) error {
	f := set.Lookup("lang")
	if f == nil || slices.Contains(text.Languages, f.Value.String()) {
		return nil
	}
	return usage(text.Of("--lang %q: want %s"), f.Value.String(), orList(text.Languages))
}

// orList writes "a, b or c".
func orList(words []string) text.Text {
	if len(words) < 2 {
		return text.Plain(strings.Join(words, ""))
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	return text.Of("%s or %s").With(text.List(before), last)
}
