package report

import (
	"html/template"
	"regexp"
	"strings"
)

var (
	// token matches what stands between blanks and other signs. A date, a version, an address or a shortened id is one
	// token, and no number.
	token = regexp.MustCompile(`[\w.:…-]+`)
	// long matches a number whose whole part has four digits or more, and the sign that ends a sentence or clause.
	long = regexp.MustCompile(`^-?(\d{4,})(?:\.\d+)?[.:]?$`)
)

// Grouped writes the numbers of a text with a comma before each three digits: 1234.5 becomes 1,234.5.
func Grouped(text string) string {
	return token.ReplaceAllStringFunc(text, func(t string) string {
		at := long.FindStringSubmatchIndex(t)
		if at == nil {
			return t
		}
		for comma := at[3] - 3; comma > at[2]; comma -= 3 {
			t = t[:comma] + "," + t[comma:]
		}
		return t
	})
}

// Kept is a text as HTML in which a shortened id (01a2…9f8e7d) and an option (--all) stay on one line. A browser may
// break both at their signs.
func Kept(text string) template.HTML {
	var b strings.Builder
	from := 0
	for _, at := range token.FindAllStringIndex(text, -1) {
		if t := text[at[0]:at[1]]; strings.HasPrefix(t, "--") || strings.Contains(t, "…") {
			b.WriteString(template.HTMLEscapeString(text[from:at[0]]) + `<span class="keep">` + template.HTMLEscapeString(t) +
				`</span>`)
			from = at[1]
		}
	}
	b.WriteString(template.HTMLEscapeString(text[from:]))
	return template.HTML(b.String()) //nolint:gosec // every piece is escaped
}
