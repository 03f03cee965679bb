// Package redact keeps secrets out of what the program writes. It knows the places where a secret can stand in a text:
// the user info of an address with or without a scheme, parameters, headers, variables, fields of JSON. [Writer] is the
// one place on the way out that applies it to logs, errors and results, so a new setting or flag needs no code.
// [Address] is for a value that is an address as a whole, in which a mistyped part may be a secret too.
package redact

import (
	"io"
	"net/url"
	"regexp"
	"strings"
)

// Hidden is what replaces a secret.
const Hidden = "***"

// inQuotes matches a character of a value in a text: neither a space nor a quote that ends the value. A quote with a
// backslash belongs to it.
const inQuotes = "(?:\\\\.|[^\\s\"'`<>\\\\])"

// secretName matches the name of a parameter, header or variable whose value is a secret.
const secretName = `[\w.%-]*(?:pass|pwd|pw\b|secret|token|credential|auth|jwt|cookie|(?:api|access|private|account)[-_.]?key|signature|\bsig\b)[\w.%-]*` //nolint:gosec // a pattern, no secret

var (
	field = regexp.MustCompile(`(?i)((?:\\*"|&#34;)` + secretName +
		`(?:\\*"|&#34;)\s*:\s*(?:\\*"|&#34;))((?:\\[^"]|[^"&\\]|&(?:[^#]|#[^3]|#3[^4]))*)`)
	header    = regexp.MustCompile("(?i)((?:\\b(?:proxy-)?authorization|\\b(?:set-)?cookie|\\bx-[\\w-]*(?:token|key|secret|auth)[\\w-]*|\\bapi-?key)\\s*[:=]\\s*)((?:\\\\.|[^\"'`<>\\\\\r\n])+)")
	variable  = regexp.MustCompile("(\\b[A-Z0-9_]*(?:PASS(?:WORD|WD|PHRASE)?|PWD|PW|SECRET|TOKEN|CREDENTIALS?|AUTH|(?:API|ACCESS|PRIVATE)_?KEY)(?:_[A-Z0-9_]+)?=)('[^']*'|\"(?:\\\\.|[^\"\\\\])*\"|" + inQuotes + "+)")
	parameter = regexp.MustCompile("(?i)((?:[?&;#]|--|\\\\u0026)" + secretName + "=)((?:\\\\.|[^&\\s\"'`<>\\\\])*)")
	link      = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://(?:\\\\.|[^\\s\"'`<>\\\\，。；：、（）])*")
	dsn       = regexp.MustCompile(`[\w.%$-]*:` + inQuotes + `*@(?:tcp6?|unix|\w+)\(`)
	account   = regexp.MustCompile(`[\w.%$-]*:(?:\\.|[^\s"'/\\])+@(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):\d+\b`)

	// known matches what stands in the place of a secret and is none: a switch, a variable of a shell, a placeholder of
	// ours, an example.
	known = regexp.MustCompile(`^(?:["']?(?:true|false|set|unset: ` +
		`.*|\.\.\.|\$\{?[A-Z_]+\}?|\$\(.*|\{\{\w+\}\})?["']?|\*\*\*&#3[49];|(?i:bearer|basic) (?:\.\.\.|\*\*\*|\$.*))$|` +
		example.String())
	// example matches the words that help texts and errors have in the place of a password or a port.
	example = regexp.MustCompile(`^(?:password|密码|SECRET|port|端口|\*\*\*)$`)
	// harmless matches the parameters of an address that help, and values that are no secret.
	harmless = regexp.MustCompile(`^(?:(?:master_name|addr|db|username|sentinel_username|tls|tls_ca|tls_cert|tls_key|skip_verify|loc|charset|collation)=[^#]*|[\w.]+=(?:\d{1,4}(?:ms|s|m|h)?)?)$`)
	// pair matches a variable NAME=value or a header "Name: value", and told a value of them that is none: a number, a
	// duration, a media type.
	pair = regexp.MustCompile(`(?s)^(\s*[\w.-]+\s*[:=]\s*)(.+)$`)
	told = regexp.MustCompile(`^(?:[\d.]+(?:ms|s|m|h)?|(?:application|text)/[\w.+-]+(?:; ` +
		`*charset=[\w-]+)?|(?:\{\{\w+\}\}[:/]*)+)$`)
	secret = regexp.MustCompile("(?i)^" + secretName + `\s*[:=]`)
	// host matches a server with its port, and what may follow them in a sentence.
	host = regexp.MustCompile(`^(?:\[[0-9a-fA-F:.%]*\]|[^:@]*)(?::(?:\d{1,5}(?:\W.*)?|port|端口)?)?$`)
	list = regexp.MustCompile(`,\s*[a-z][a-z0-9+.-]*://`)
)

// Text replaces the secrets in a text by stars and leaves the rest as it is.
func Text(text string) string {
	for _, where := range []*regexp.Regexp{field, header, variable, parameter} {
		text = where.ReplaceAllStringFunc(text, func(found string) string {
			m := where.FindStringSubmatch(found)
			if known.MatchString(m[2]) || strings.HasSuffix(m[1], "_FILE=") {
				return found
			}
			return m[1] + Hidden
		})
	}
	text = link.ReplaceAllStringFunc(text, func(found string) string { return addresses(found, false) })
	for _, where := range []*regexp.Regexp{dsn, account} {
		text = where.ReplaceAllStringFunc(text, func(found string) string {
			return userInfo(found, strings.LastIndex(found, "@"), "")
		})
	}
	return text
}

// Address replaces the secrets in an address of a server, or in a comma-separated list of them, as a setting or flag
// gave it. It need not be one that can be read: of parameters it shows only the harmless ones, since the name of a
// password may be mistyped.
func Address(text string) string { return addresses(text, true) }

// addresses splits a list. A comma that no scheme follows may be part of a password.
func addresses(text string, strict bool) string {
	var b strings.Builder
	for {
		next := list.FindStringIndex(text)
		if next == nil {
			return b.String() + one(text, strict)
		}
		b.WriteString(one(text[:next[0]], strict) + ",")
		text = text[next[0]+1:]
	}
}

func one(text string, strict bool) string {
	scheme, rest := "", text
	if i := strings.Index(text, "://"); i >= 0 {
		scheme, rest = text[:i+3], text[i+3:]
	}
	server := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		server = rest[:i]
	}
	at := strings.LastIndex(rest, "@")
	before := rest[:strings.Index(rest+"?", "?")]
	switch user, inQuery := strings.LastIndex(before, "@"), at >= len(before); {
	case validHosts(server) && (!strict || user < 0 && inQuery):
		at = -1 // it is part of a parameter, or of a path
	case user >= 0 && inQuery && strict: // either of a password, or of a parameter
		user, _, _ := strings.Cut(rest, ":")
		return scheme + user + ":" + Hidden
	case user >= 0 && inQuery:
		at = user
	}
	switch {
	case at >= 0:
		rest = userInfo(rest, at, scheme)
	case scheme != "" && !validHosts(server): // cut off, as at a comma in the password, or a password without its host
		host, _, _ := strings.Cut(server, ":")
		rest = host + ":" + Hidden + rest[len(server):]
	}
	if strict {
		rest = parameters(rest)
	}
	return scheme + rest
}

// userInfo hides the password before the @ at a place, and a user info without a colon: a token may stand there.
// Without a scheme it may be the user of a DSN.
func userInfo(text string, at int, scheme string) string {
	user, password, found := strings.Cut(text[:at], ":")
	switch {
	case example.MatchString(password):
		return text
	case found && !strings.Contains(user, "@"):
		return user + ":" + Hidden + text[at:]
	case found || scheme != "":
		return Hidden + text[at:]
	}
	return text
}

// validHosts says whether a text is host:port, or several of them, each with or without a port.
func validHosts(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		if !host.MatchString(part) {
			return false
		}
	}
	return true
}

// parameters hides the parameters of an address that are not known to be harmless, and its fragment.
func parameters(text string) string {
	i := strings.IndexAny(text, "?#")
	if i < 0 {
		return text
	}
	parts := strings.Split(text[i+1:], "&")
	for k, part := range parts {
		name, value, found := strings.Cut(part, "=")
		if text[i] == '?' && found && (harmless.MatchString(part) && !secret.MatchString(part) || known.MatchString(value)) {
			continue
		}
		if parts[k] = Hidden; found {
			parts[k] = name + "=" + Hidden
		}
	}
	return text[:i+1] + strings.Join(parts, "&")
}

// Pair replaces the value of a variable NAME=value or a header "Name: value", unless it is an address, whose secrets
// are replaced, or no secret by its form. Any name may be that of a secret.
func Pair(text string) string {
	m := pair.FindStringSubmatch(text)
	switch {
	case m == nil:
		return Text(text)
	case known.MatchString(m[2]), told.MatchString(m[2]) && !secret.MatchString(m[1]):
		return text
	case strings.Contains(m[2], "://") && !secret.MatchString(m[1]):
		return m[1] + Address(m[2])
	}
	return m[1] + Hidden
}

// Secrets returns what is hidden of a text in its redacted form, as written and unescaped.
func Secrets(text, redacted string) (all []string) {
	shown := strings.Split(redacted, Hidden)
	for i := range shown {
		shown[i] = regexp.QuoteMeta(shown[i])
	}
	found := regexp.MustCompile("(?s)^" + strings.Join(shown, "(.*)") + "$").FindStringSubmatch(text)
	for _, secret := range found[min(1, len(found)):] {
		all = append(all, secret)
		if plain, err := url.PathUnescape(secret); err == nil && plain != secret {
			all = append(all, plain)
		}
	}
	return all
}

// Writer returns a writer that applies [Text] to each write, which must hold whole lines; a log handler and fmt write
// them so.
func Writer(w io.Writer) io.Writer {
	if _, ok := w.(*writer); ok {
		return w
	}
	return &writer{w}
}

// Plain returns the writer that [Writer] was given: for a command whose result is an address with its password.
func Plain(w io.Writer) io.Writer {
	if r, ok := w.(*writer); ok {
		return r.to
	}
	return w
}

type writer struct{ to io.Writer }

// Fd is that of a file, by which a caller sees whether it is a terminal; no other writer has one.
func (w *writer) Fd() uintptr {
	if f, ok := w.to.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
