package codec

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

var binaryValue = regexp.MustCompile(`(?s)_binary'((?:[^'\\]|\\.|'')*)'`)

// SQLText writes a statement on one line; binary values that are no text are shown as <bytes>.
func SQLText(statement string) string {
	if strings.Contains(statement, "_binary'") {
		statement = binaryValue.ReplaceAllStringFunc(statement, func(value string) string {
			if strings.ContainsFunc(value, func(r rune) bool {
				return r < ' ' && r != '\n' || r == utf8.RuneError || r == 0x7f
			}) {
				return "<bytes>"
			}
			return value
		})
	}
	return strings.Join(strings.FieldsFunc(statement, func(r rune) bool {
		return r == ' ' || r >= '\t' && r <= '\r' && r != '\v'
	}), " ")
}

// SQLComment is the comment that a statement begins with, which says whose it is.
func SQLComment(statement string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(statement), "/*")
	if !ok {
		return ""
	}
	comment, _, _ := strings.Cut(rest, "*/")
	return strings.TrimSpace(comment)
}

// SQLDigest is a statement without what differs from run to run: strings, numbers and parameters are "?", lists of them
// one, comments and quotes of names are gone, blanks are folded.
func SQLDigest(statement string) string { return (&digest{}).of(statement) }

// PostgresDigest is SQLDigest of a statement in the dialect of PostgreSQL: quotes "" are those of names, a backslash is
// no escape but in E”, $1 is a parameter, and $$ quotes a text.
func PostgresDigest(statement string) string { return (&digest{postgres: true}).of(statement) }

func (d *digest) of(statement string) string {
	d.out = make([]byte, 0, len(statement))
	for s := statement; s != ""; {
		s = d.next(s)
	}
	out := strings.TrimRight(string(d.out), " ;")
	for _, word := range []string{"SAVEPOINT ", "ROLLBACK TO ", "RELEASE SAVEPOINT "} {
		if len(out) >= len(word) && strings.EqualFold(out[:len(word)], word) {
			return word + "?"
		}
	}
	return out
}

// The kinds of statements that do several things inside the database, between which no proxy can hold them.
const (
	SQLProcedure  = "procedure"  // a stored procedure or function, or a prepared text
	SQLStatements = "statements" // several statements in one message
	SQLSubquery   = "subquery"   // a write that takes what it writes, or where, from a SELECT of its own
)

var (
	procedures = regexp.MustCompile(`(?i)^(?:CALL|DO|EXECUTE)\b`)
	functions  = regexp.MustCompile(`(?i)^SELECT (?:.* FROM )?(\w+)\(`)
	subqueries = regexp.MustCompile(`(?i)^(?:INSERT|REPLACE|UPDATE|DELETE)\b.*\bSELECT\b|` +
		`^WITH\b.*(?:\(|\) )(?:INSERT|UPDATE|DELETE|MERGE)\b|^MERGE\b`)
	builtIn = regexp.MustCompile(`(?i)^(?:LAST_INSERT_ID|ROW_COUNT|FOUND_ROWS|GET_LOCK|RELEASE_LOCK|RELEASE_ALL_LOCKS|IS_FREE_LOCK|IS_USED_LOCK|` +
		`VERSION|DATABASE|SCHEMA|USER|CURRENT_USER|SESSION_USER|CONNECTION_ID|UUID|UUID_SHORT|RAND|` +
		`NOW|SYSDATE|SLEEP|COUNT|MAX|MIN|SUM|COALESCE|IFNULL|IF|CAST|EXISTS|CONCAT|JSON_TABLE|` +
		`PG_\w+|NEXTVAL|CURRVAL|SETVAL|LASTVAL|GEN_RANDOM_UUID|TXID_CURRENT|\w+_TIMESTAMP|SET_CONFIG|GENERATE_SERIES|` +
		`UNNEST|\w+_AGG|JSONB?_\w+)$`)
)

// SQLInside says which of these kinds a statement is, by its digest; "" = none. It cannot see triggers.
func SQLInside(digest string) string {
	call := functions.FindStringSubmatch(digest)
	switch {
	case strings.Contains(digest, ";"):
		return SQLStatements
	case procedures.MatchString(digest), len(call) > 1 && !builtIn.MatchString(call[1]):
		return SQLProcedure
	case subqueries.MatchString(digest):
		return SQLSubquery
	}
	return ""
}

// digest is a statement so far. Values in a row are told apart from the lists around them by the last few bytes.
type digest struct {
	out      []byte
	blank    bool // one stands before what comes
	postgres bool // the dialect; else MySQL's
}

// next takes a token from the beginning of s, and returns the rest.
func (d *digest) next(s string) string {
	if n := d.ignored(s); n > 0 {
		d.blank = true
		return s[n:]
	}
	switch c := s[0]; {
	case c == '`' || c == '"' && d.postgres:
		end := quoted(s, false)
		d.word(strings.Trim(s[:end], s[:1]))
		return s[end:]
	case c == '\'' || c == '"':
		d.value()
		return s[quoted(s, !d.postgres):]
	case c == '$' && d.postgres:
		if n := postgresDollar(s); n > 0 {
			d.value()
			return s[n:]
		}
	case isDigit(c) || c == '.' && digitFollows(s) && !d.afterWord():
		d.value()
		return s[number(s):]
	case c == '?':
		d.value()
		return s[1:]
	case (c == '-' || c == '+') && digitFollows(s) && !d.afterOperand():
		return s[1:] // a sign
	case isName(c):
		return d.name(s)
	}
	d.operator(s[:1])
	return s[1:]
}

// ignored is the length of the blank or the comment at the beginning of s; 0 where there is neither.
func (d *digest) ignored(s string) int {
	if isBlank(s[0]) {
		return 1
	}
	from, closing := 0, "\n"
	switch {
	case strings.HasPrefix(s, "/*"):
		from, closing = len("/*"), "*/" // "/*/" does not close itself
	case d.postgres && strings.HasPrefix(s, "--"):
	case d.postgres:
		return 0
	case s[0] == '#' || s == "--" || strings.HasPrefix(s, "-- ") || strings.HasPrefix(s, "--\n"):
	default:
		return 0
	}
	at := strings.Index(s[from:], closing)
	if at < 0 {
		return len(s)
	}
	return from + at + len(closing)
}

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isName says whether a byte may stand in a name or a keyword.
func isName(c byte) bool { return isWord(c) || c == '_' || c == '@' || c == '$' }

// digitFollows says whether the second byte is a digit.
func digitFollows(s string) bool { return len(s) > 1 && isDigit(s[1]) }

// name takes a name or a keyword, or the value that such a word announces: _binary'...', X'...', N'...'.
func (d *digest) name(s string) string {
	end := 1
	for end < len(s) && isName(s[end]) {
		end++
	}
	if end < len(s) && s[end] == '\'' && (s[0] == '_' || strings.ContainsRune("xXbBnNeE", rune(s[0])) && end == 1) {
		d.value()
		return s[end+quoted(s[end:], !d.postgres || s[0]|' ' == 'e'):]
	}
	d.word(s[:end])
	return s[end:]
}

func (d *digest) word(w string) {
	d.space()
	if len(w) >= 8 {
		if key := Key(w); strings.Contains(key, "*") {
			w = key
		}
	}
	d.out = append(d.out, w...)
}

// space writes the blank that was folded, but none inside of brackets.
func (d *digest) space() {
	if n := len(d.out); d.blank && n > 0 && d.out[n-1] != '(' && d.out[n-1] != ' ' {
		d.out = append(d.out, ' ')
	}
	d.blank = false
}

// value writes "?", or nothing where it is the next of a list of values.
func (d *digest) value() {
	if strings.HasSuffix(string(d.out[max(0, len(d.out)-3):]), "?, ") {
		d.out = d.out[:len(d.out)-2]
		d.blank = false
		return
	}
	d.space()
	d.out = append(d.out, '?')
}

func (d *digest) operator(c string) {
	n := len(d.out)
	switch c {
	case ",":
		d.out, d.blank = append(d.out, ", "...), false
	case ")":
		d.blank = false
		d.out = append(bytes.TrimRight(d.out, " "), ')')
		d.fold()
	case ";":
		d.out = append(d.out, ';')
	case "=", "<", ">", "!", "+", "-", "*", "/", "%":
		if c == "*" && n > 0 && (d.out[n-1] == '(' || d.out[n-1] == '.') {
			d.out = append(d.out, '*')
			break
		}
		// The parts of an operator stand together, with a blank on either side.
		if n > 1 && d.out[n-1] == ' ' && strings.ContainsRune("<>!", rune(d.out[n-2])) && c != "-" {
			d.out = d.out[:n-1]
		} else {
			d.blank = d.blank || n > 0 && d.out[n-1] != '('
			d.space()
		}
		d.out, d.blank = append(d.out, c...), true
		d.space()
	default:
		d.space()
		d.out = append(d.out, c...)
	}
}

// fold makes one of the rows of values of an INSERT.
func (d *digest) fold() {
	if out, ok := strings.CutSuffix(string(d.out), "(?), (?)"); ok {
		d.out = append(d.out[:len(out)], "(?)"...)
	}
}

func (d *digest) afterWord() bool {
	return len(d.out) > 0 && !d.blank && isWord(d.out[len(d.out)-1])
}

// afterOperand says whether a minus subtracts.
func (d *digest) afterOperand() bool {
	n := len(d.out)
	return n > 0 && (d.out[n-1] == ')' || d.out[n-1] == '?' || isWord(d.out[n-1])) && !d.afterKeyword()
}

// afterKeyword says whether the last word is one before a value.
func (d *digest) afterKeyword() bool {
	at := len(d.out)
	for at > 0 && isWord(d.out[at-1]) {
		at--
	}
	switch strings.ToUpper(string(d.out[at:])) {
	case "SELECT", "VALUES", "LIMIT", "OFFSET", "AND", "OR", "BETWEEN", "IN", "LIKE", "THEN", "ELSE", "WHEN", "BY", "SET",
		"RETURN", "NOT":
		return true
	}
	return false
}

// postgresDollar is the length of the parameter ($1) or the text in dollar quotes ($$a$$, $x$a$x$) at the beginning of
// s; 0 = there is neither.
func postgresDollar(s string) int {
	n := 1
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	if n > 1 {
		return n
	}
	for n < len(s) && (isWord(s[n]) || s[n] == '_') {
		n++
	}
	if n == len(s) || s[n] != '$' {
		return 0
	}
	tag := s[:n+1]
	if end := strings.Index(s[n+1:], tag); end >= 0 {
		return n + 1 + end + len(tag)
	}
	return len(s)
}

// quoted is the length of the string at the beginning of s, whose quotes are doubled inside or, with escapes, escaped.
func quoted(s string, escapes bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] == s[0] && i+1 < len(s) && s[i+1] == s[0]:
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}

// number is the length of the number at the beginning of s.
func number(s string) int {
	for i := 1; i < len(s); i++ {
		sign := (s[i] == '-' || s[i] == '+') && (s[i-1] == 'e' || s[i-1] == 'E') && (len(s) < 2 || s[1] != 'x')
		if !isWord(s[i]) && s[i] != '.' && !sign {
			return i
		}
	}
	return len(s)
}
