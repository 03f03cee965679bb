package report

import (
	"html"
	"regexp"
	"slices"
	"strings"
)

// Hidden is what replaces a secret.
const Hidden = "***"

// shortest is the minimum length of a secret that is replaced. A shorter secret would match ordinary words.
const shortest = 4

// markup matches the parts that [Hide] does not change: the style sheet and the tags. html/template escapes every >
// inside an attribute.
var markup = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`)

// Hide replaces secrets in the text of an HTML page, whether they are escaped or not. It is a second line of defence:
// the code that writes the text already leaves secrets out. Secrets shorter than four bytes are not replaced.
func Hide(text string, secrets []string) string {
	replacer := replacing(secrets)
	if replacer == nil {
		return text
	}
	var b strings.Builder
	at := 0
	for _, tag := range markup.FindAllStringIndex(text, -1) {
		b.WriteString(replacer.Replace(text[at:tag[0]]))
		b.WriteString(text[tag[0]:tag[1]])
		at = tag[1]
	}
	b.WriteString(replacer.Replace(text[at:]))
	return b.String()
}

// HidePlain replaces secrets in plain text.
func HidePlain(text string, secrets []string) string {
	if replacer := replacing(secrets); replacer != nil {
		return replacer.Replace(text)
	}
	return text
}

// replacing returns a replacer for the secrets, longest first; nil if there is nothing to replace.
func replacing(secrets []string) *strings.Replacer {
	var pairs []string
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) >= shortest {
			written := strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") // as html/template escapes it
			pairs = append(pairs, s, Hidden, written, Hidden)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
