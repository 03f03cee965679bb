package page

import (
	"html"
	"regexp"
	"slices"
	"strings"
)

// Hidden stands where a secret stood.
const Hidden = "***"

// shortest is the length from which a secret is looked for. A shorter one would match ordinary words.
const shortest = 4

// markup is what [Hide] leaves alone: the style sheet and the tags. What html/template puts into an attribute has no bare > in it.
var markup = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`)

// Hide replaces secrets in the text of a page, in plain text or as HTML writes them; the second line of defence: the code that makes the
// text leaves them out already. Secrets shorter than four bytes are not looked for.
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

// HidePlain replaces secrets in text that is no HTML.
func HidePlain(text string, secrets []string) string {
	if replacer := replacing(secrets); replacer != nil {
		return replacer.Replace(text)
	}
	return text
}

// replacing returns what replaces the secrets, longest first; nil where there are none.
func replacing(secrets []string) *strings.Replacer {
	var pairs []string
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) >= shortest {
			written := strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") // as html/template does
			pairs = append(pairs, s, Hidden, written, Hidden)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
