package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lastitem/say/text"
)

// Language is the language of what the command line args gets to read: --lang, else the locale. It is looked for before
// the flags are parsed, since help and the errors of the parser follow it too. A language that there is not is refused
// later, by checkLang.
func Language(args []string, getenv func(string) string) string {
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

// AddLang declares --lang, whose default is what lang holds.
func AddLang(set *pflag.FlagSet, lang *string) {
	set.StringVar(lang, "lang", *lang, text.Of("language of results, help and errors: en or zh (default: by LC_ALL, "+
		"LC_MESSAGES or LANG)").In(*lang))
	set.Lookup("lang").DefValue = "" // what it is here would differ from one machine's help to another's
}

// OrList writes "a, b or c".
func OrList(words []string) text.Text {
	if len(words) < 2 {
		return text.Plain(strings.Join(words, ""))
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	return text.Of("%s or %s").With(text.List(before), last)
}
