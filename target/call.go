package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Call is one HTTP request.
type Call struct {
	Method      string
	Path        string // with its query
	Body        []byte
	ContentType string      // "" = not sent
	Key         string      // the Idempotency-Key; "" = none
	Headers     [][2]string // more of them, names and values; nil = none
}

const jsonType = "application/json"

// encoded is a value of plain fields as JSON: they always encode.
func encoded(v any) []byte {
	said, err := json.Marshal(v)
	if err != nil {
		panic("target: " + err.Error())
	}
	return said
}

// Request returns the call for net/http; base is the address of the service, without a slash at its end.
func (c Call) Request(ctx context.Context, base string) (*http.Request, error) {
	var body io.Reader
	if len(c.Body) > 0 {
		body = bytes.NewReader(c.Body)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, base+c.Path, body)
	if err != nil {
		return nil, err
	}
	header, host := c.Header()
	if req.Header = header; host != "" {
		req.Host = host
	}
	return req, nil
}

// Agent is the User-Agent of a call that names none.
const Agent = "lastitem"

// Header returns what every client sends beside the length of the body, and the host that a header names; "" = that of
// the address.
func (c Call) Header() (all http.Header, host string) {
	all = http.Header{"User-Agent": {Agent}}
	if c.ContentType != "" {
		all.Set("Content-Type", c.ContentType)
	}
	if c.Key != "" {
		all.Set(api.HeaderKey, c.Key)
	}
	for _, h := range c.Headers {
		switch name := http.CanonicalHeaderKey(h[0]); name {
		case "Host":
			host = h[1]
		case "User-Agent":
			all.Set(name, h[1])
		case "Content-Length", "Transfer-Encoding", "Trailer": // they are about how a client writes
		default:
			all.Add(name, h[1])
		}
	}
	return all, host
}

// Reply is what came back.
type Reply struct {
	Status int
	// Problem says that the body is application/problem+json.
	Problem    bool
	Replica    string        // X-Replica
	Replayed   bool          // Idempotent-Replayed
	RetryAfter time.Duration // 0 = not given
	Location   string
	Header     http.Header // nil = it was not kept
	Body       []byte
}

// maxAnswer is the longest body that is read, in bytes: what is at the other end is not always a shop, whose longest
// answer is a page of a ledger, some megabytes.
const maxAnswer = 64 << 20

// errTooLong goes with an answer of more than maxAnswer bytes.
var errTooLong = fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)

// Send sends the call once and reads the whole reply.
func (c Call) Send(ctx context.Context, client *http.Client, base string) (Reply, error) {
	req, err := c.Request(ctx, base)
	if err != nil {
		return Reply{}, err
	}
	res, err := client.Do(req)
	if why := distrusted(err); why != (text.Text{}) {
		err = text.Of("%w%s").Errorf(err, why)
	}
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.Request != nil && res.Request.Method != c.Method { // a redirect was followed
		return Reply{}, text.Of("%s %s was redirected to %s, and is a %s there: give that address").Errorf(c.Method, c.Path,
			res.Request.URL, res.Request.Method)
	}
	r := ReplyOf(res.StatusCode, res.Header)
	r.Header = res.Header
	r.Body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(r.Body) > maxAnswer {
		err = errTooLong
	}
	return r, err
}

// ReplyOf is the reply with this status and header, without its body.
func ReplyOf(status int, header http.Header) Reply {
	return Reply{Status: status, Problem: IsProblem([]byte(header.Get("Content-Type"))),
		Replica: header.Get(api.HeaderReplica), Replayed: strings.EqualFold(header.Get(api.HeaderReplayed), "true"),
		RetryAfter: RetryAfter(header.Get("Retry-After")), Location: header.Get("Location")}
}

// Shown is a reply as a sentence shows it.
func Shown(r Reply) string {
	said := fmt.Sprint(r.Status)
	if r.Location != "" {
		said += " Location: " + r.Location
	}
	return strings.TrimSpace(fmt.Sprintf("%s %.200s", said, strings.Join(strings.Fields(string(r.Body)), " ")))
}

// Promises says whether the answer means that the outcome is told, or written, later.
func (r Reply) Promises() bool {
	return r.Status == http.StatusAccepted || r.Location != "" && r.Status != http.StatusCreated
}

// IsProblem says whether a content type is that of a problem, parameters aside.
func IsProblem(contentType []byte) bool {
	kind, _, _ := bytes.Cut(contentType, []byte{';'})
	return bytes.EqualFold(bytes.TrimSpace(kind), []byte(api.ProblemType))
}

// RetryAfter parses a Retry-After in seconds; 0 if it is absent or a date.
func RetryAfter(value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 20)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// StatusError is an HTTP status that is no success.
type StatusError int

func (s StatusError) Error() string { return strconv.Itoa(int(s)) + " " + http.StatusText(int(s)) }

// Fetch sends the call and returns the reply if it is a 2xx; of another the error is a [StatusError], wrapped.
func (c Call) Fetch(ctx context.Context, client *http.Client, base string) (Reply, error) {
	r, err := c.Send(ctx, client, base)
	if err == nil && r.Status/100 != 2 {
		path, _, _ := strings.Cut(c.Path, "?")
		err = fmt.Errorf("%s %s: %w: %.300s", c.Method, path, StatusError(r.Status), r.Body)
	}
	return r, err
}

// AnyCertificate takes every certificate, also one that nobody knows: --insecure.
func AnyCertificate() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // what the user asks for
}

// NewTransport returns a transport that adds nothing to a request. insecure: it takes every certificate.
func NewTransport(insecure bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // the header Accept-Encoding is not in the call
	if insecure {
		t.TLSClientConfig = AnyCertificate()
	}
	return t
}

// distrusted says what helps where a certificate is not trusted; zero = the error is another.
func distrusted(err error) text.Text {
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); !is {
		return text.Text{}
	}
	return text.Of("; 'shop loadtest' takes such a certificate with --insecure, and SSL_CERT_FILE names a file with " +
		"those that are trusted")
}
