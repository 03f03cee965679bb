// Package input reads requests strictly: bytes in, values or the refusal of a field out. Start with decode.go for the
// rules; fields.go has all fields, and inputs.go reads what a path takes.
package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Input is strict, because every leniency of a decoder is a deduction that the client did not mean: a misspelt quantity
// would silently be 1, the second of two quantities would silently win, 1e2 would be a hundred. A refusal names the
// field and says why. The same rules hold for a query, a form and a JSON body:
//
//	unknown field, or one in capitals    refused: names are what they are
//	given twice, in one place or in two  refused, even with the same value
//	1.5  1e2  1.0  01  "1"  null         refused: a number is decimal digits
//	data after the JSON value            refused
//	no body at all                       fine: everything has a default
//
// What happens to a field: read splits the bytes into names and values, set finds the name in the table of fields.go
// and refuses a field that was given before, take checks the value.

// MaxBody is the largest body in bytes: a cart of a hundred lines fits ten times.
const MaxBody = 64 << 10

// maxEcho is how much of an unknown field's name is repeated to the client, in bytes.
const maxEcho = 64

// Fields are the fields that an input may have, of type T when it is read.
type Fields[T any] []struct {
	name string
	take func(into *T, name string, v value) error // checks and keeps a value
}

// Names returns the names of the fields.
func (f Fields[T]) Names() []string {
	names := make([]string, len(f))
	for i := range f {
		names[i] = f[i].name
	}
	return names
}

// index returns where a field is in the table, -1 = there is none of that name.
func (f Fields[T]) index(name string) int {
	for i := range f {
		if f[i].name == name {
			return i
		}
	}
	return -1
}

// between takes a whole number between low and high, both allowed.
func between[T any](low, high int64, keep func(*T, int64)) func(*T, string, value) error {
	return func(into *T, name string, v value) error {
		n, err := v.integer(name, low, high)
		keep(into, n)
		return err
	}
}

// anyWhole takes a whole number whose limits are checked later. One beyond 64 bits becomes the nearest within 64 bits,
// which is beyond those limits too.
func anyWhole[T any](keep func(*T, int64)) func(*T, string, value) error {
	return func(into *T, name string, v value) error {
		n, _, err := v.whole(name)
		keep(into, n)
		return err
	}
}

// filled takes a text that is not empty.
func filled[T any](keep func(*T, string)) func(*T, string, value) error {
	return func(into *T, name string, v value) error {
		text, err := v.word(name)
		if err == nil && text == "" {
			err = Invalid(name, "is empty")
		}
		keep(into, text)
		return err
	}
}

// decoder hands the fields of a request over, whether they come from the query, a form or JSON. It refuses unknown
// fields, and a second value for any field, wherever it stands: one decoder goes over the query and the body of a
// request.
type decoder[T any] struct {
	Fields[T]
	into *T
	seen uint64 // a bit per field
}

// set takes one field from wherever it was found.
func (d *decoder[T]) set(name string, v value) error {
	i := d.index(name)
	if i < 0 {
		return Invalid(echo(name), unknownField(d.Names()))
	}
	if d.seen>>i&1 == 1 {
		return Invalid(name, "given twice")
	}
	d.seen |= 1 << i
	return d.Fields[i].take(d.into, name, v)
}

// unknownField says which fields there are instead.
func unknownField(names []string) string {
	if len(names) == 0 {
		return "unknown field; this path takes none"
	}
	return "unknown field; there are " + strings.Join(names, ", ")
}

// given reports whether a field was set.
func (d *decoder[T]) given(name string) bool { return d.seen>>d.index(name)&1 == 1 }

// read takes the fields of r from its query and its body. w is told when the body is too large.
func (d *decoder[T]) read(r *http.Request, w http.ResponseWriter) error {
	if err := d.pairs("query", r.URL.RawQuery); err != nil {
		return err
	}
	body, err := readBody(r, w)
	if err != nil || len(body) == 0 {
		return err
	}
	form, err := isForm(r.Header)
	if err != nil {
		return err
	}
	if form {
		return d.pairs("body", string(body))
	}
	return d.json(body)
}

// readBody reads at most MaxBody bytes; no body at all is fine. A body that is announced as longer is refused unread,
// so that a client that waits for "100 Continue" need not send it. Beyond MaxBody the server closes the connection
// after the answer rather than read on.
func readBody(r *http.Request, w http.ResponseWriter) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > MaxBody {
		return nil, ErrBodyTooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, ErrBodyTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, Invalid("body", "ends before its Content-Length")
	case err != nil:
		return nil, Invalid("body", "could not be read")
	}
	return buf.Bytes(), nil
}

// isForm tells the two kinds of body apart and refuses all others, a body without a type among them: a guess would
// read some bodies of curl's default type, or of none, wrongly. The common spellings are compared before anything is
// parsed.
func isForm(header http.Header) (bool, error) {
	if !knownCoding(header) {
		return false, ErrMediaType
	}
	types := header["Content-Type"]
	if len(types) != 1 {
		return false, ErrMediaType
	}
	kind := types[0]
	if kind != "application/json" && kind != "application/x-www-form-urlencoded" {
		var params map[string]string
		var err error
		if kind, params, err = mime.ParseMediaType(kind); err != nil {
			return false, ErrMediaType
		}
		if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
			return false, ErrMediaType
		}
	}
	switch kind {
	case "application/json":
		return false, nil
	case "application/x-www-form-urlencoded":
		return true, nil
	}
	return false, ErrMediaType
}

// knownCoding says whether a body is not encoded: there is no Content-Encoding, or only identity.
func knownCoding(header http.Header) bool {
	return !slices.ContainsFunc(header["Content-Encoding"], func(coding string) bool {
		return coding != "" && !strings.EqualFold(coding, "identity")
	})
}

// pairs takes name=value pairs joined by "&", as url.ParseQuery does, but in their order and without a map. where names
// their place in an error: "query" or "body".
func (d *decoder[T]) pairs(where, text string) error {
	for text != "" {
		var pair string
		pair, text, _ = strings.Cut(text, "&")
		if pair == "" {
			continue
		}
		rawName, rawText, _ := strings.Cut(pair, "=")
		name, err := unescape(rawName)
		if err != nil {
			return Invalid(where, "a field's name "+err.Error())
		}
		content, err := unescape(rawText)
		if err != nil {
			return Invalid(echo(name), err.Error())
		}
		if err := d.set(name, value{kind: plain, text: content}); err != nil {
			return err
		}
	}
	return nil
}

// The refusals of a body that are of no field; all others are a *stock.InvalidError.
var (
	ErrBodyTooLarge = errors.New("handler: body too large")
	ErrMediaType    = errors.New("handler: unsupported media type")
)

var (
	errEscape = errors.New("has a broken % escape")
	errUTF8   = errors.New("is not valid UTF-8")
)

// unescape decodes % escapes and "+"; it allocates nothing where there are none.
func unescape(s string) (string, error) {
	s, err := url.QueryUnescape(s)
	if err != nil {
		return "", errEscape
	}
	if !utf8.ValidString(s) {
		return "", errUTF8
	}
	return s, nil
}

// json takes the fields of a body in JSON. It reports an error in the syntax, wherever it is, before one in a field.
func (d *decoder[T]) json(body []byte) error {
	if !utf8.Valid(body) {
		return Invalid("body", errUTF8.Error())
	}
	if bytes.HasPrefix(body, []byte("\ufeff")) {
		return Invalid("body", "begins with a byte order mark (EF BB BF), as files from Windows do; send UTF-8 without it")
	}
	if !json.Valid(body) {
		why := json.Unmarshal(body, new(json.RawMessage))
		return Invalid("body", "is not one JSON value: "+why.Error())
	}
	v := value{kind: jsontext.Value(body).Kind(), text: string(body)}
	if v.kind != '{' {
		return Invalid("body", "must be a JSON object")
	}
	return v.each(d.set)
}

// echo shortens what a client sent to what is worth repeating.
func echo(name string) string {
	if name == "" {
		return `""`
	}
	if len(name) <= maxEcho {
		return name
	}
	return strings.ToValidUTF8(name[:maxEcho], "") + "..."
}
