package testkit

import (
	"regexp"
	"strings"
	"unicode"
)

// HasChinese says whether a text has Chinese in it.
func HasChinese(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// InChinese says whether a text has Chinese in it, or no words to translate.
func InChinese(text string) bool {
	return HasChinese(text) || !strings.ContainsFunc(Names.ReplaceAllString(text, ""), unicode.IsLetter)
}

// Names match the parts of a text that no language changes: flags, variables, commands, code in braces, verbs, numbers.
var Names = regexp.MustCompile(`--[a-z]+(?:-[a-z]+)*|\$?[A-Z]+_[A-Z_]+|\{\{\w+\}\}|'shop ` +
	`[^']*'|%(?:\[\d\])?[.0-9]*[a-zA-Z]|\b\d+(?:\.\d+)?(?:ms|s|m|h|%)?`)
