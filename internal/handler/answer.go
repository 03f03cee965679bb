package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/internal/idempotency"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// Header values, shared by all responses and never changed: setting them allocates nothing.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{api.ProblemType}
	typeText    = []string{"text/plain; charset=utf-8"}
	retrySoon   = []string{"1"} // seconds
	yes         = []string{"true"}
	lastOne     = []string{"close"}
)

// A large body stays in memory until the client has read it. This bounds that time, well below the server's own limit
// for a request; maxLarge bounds how many there are.
const (
	patientBody    = 4 << 10
	readerPatience = 20 * time.Second
)

// outcome is what became of a request, for the metrics.
type outcome struct {
	mode string   // "" where there is none, or none that is known
	code api.Code // "" = ok
}

// An endpoint answers a request completely and says what became of it.
type endpoint func(c *gin.Context) outcome

// answers writes the answers, and logs the causes that they do not show.
type answers struct {
	log      *slog.Logger
	throttle step.Throttle
	known    map[string]string // mode names; the value outlives the request that spelt it
	large    gate              // answers above patientBody that are being written; see send
}

// write sends one complete answer; all answers but /metrics go out through it. contentType is one of the slices above.
// An error of the connection is ignored: the client notices it, since it sees no answer.
func write(c *gin.Context, status int, contentType []string, body []byte) {
	c.Writer.Header()["Content-Type"] = contentType
	c.Status(status)
	if len(body) > patientBody {
		beQuick(c)
	}
	_, _ = c.Writer.Write(body)
}

// beQuick gives the client readerPatience to read the answer. Connections have deadlines; the recorders of tests do
// not.
func beQuick(c *gin.Context) {
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(readerPatience))
}

// send writes v as the body of a 200. Nothing has gone out yet when v does not encode, or when too many clients are
// reading large answers, so that is still a clean problem.
func (a *answers) send(c *gin.Context, v any) outcome {
	body, err := encode(v)
	if err != nil {
		return outcome{code: a.fail(c, err)}
	}
	// A request that has changed something is always answered.
	if len(body) > patientBody && c.Request.Method == http.MethodGet {
		if !a.large.try() {
			return outcome{code: a.fail(c, errTooManyAnswers)}
		}
		defer a.large.leave()
	}
	write(c, http.StatusOK, typeJSON, body)
	return outcome{}
}

// encode writes v as one line of JSON. Fields are in the order of the struct and map keys are sorted, so equal values
// give equal bytes.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("handler: encoding %T: %w", v, err)
	}
	return append(body, '\n'), nil
}

// encoded is encode for strings and numbers, which always encode.
func encoded(v any) []byte {
	body, err := encode(v)
	if err != nil {
		return []byte("{}\n")
	}
	return body
}

// fail answers with the problem of err, logs the cause, and returns the code. The body is what template renders for the
// same error and path, plus the names of the request.
func (a *answers) fail(c *gin.Context, err error) api.Code {
	p := problemOf(err, c.Request.URL.EscapedPath())
	a.report(c, p.Code, err)
	var busy *idempotency.InFlightError
	if errors.As(err, &busy) && p.Code == api.InFlight {
		c.Writer.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(busy.Again().Seconds()))))
	}
	return a.refuse(c, p)
}

// unknownMode refuses a mode that there is not, and names the nearest one.
func (a *answers) unknownMode(c *gin.Context, name string) outcome {
	p := problemOf(stock.ErrUnknownMode, c.Request.URL.EscapedPath())
	if nearest := text.Nearest(name[:min(len(name), 64)], slices.Sorted(maps.Keys(a.known))); nearest != "" {
		p.Detail += fmt.Sprintf("; did you mean %s?", nearest)
	}
	return outcome{code: a.refuse(c, p)}
}

// refuse writes a problem.
func (a *answers) refuse(c *gin.Context, p api.Problem) api.Code {
	identify(&p, c.Writer, c.Request)
	if p.Code == api.Unauthorized {
		c.Writer.Header().Set("WWW-Authenticate", "Bearer")
	}
	retryAfter(c, p.Status, p.Happened == api.NoForNow)
	write(c, p.Status, typeProblem, encoded(p))
	return p.Code
}

// retryAfter tells the client when to try again, where that can help.
func retryAfter(c *gin.Context, status int, forNow bool) {
	again := status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests || forNow
	if again && c.Writer.Header()["Retry-After"] == nil {
		c.Writer.Header()["Retry-After"] = retrySoon
	}
}

// levels says how loudly the cause of a code is logged; the others are normal: the client's mistakes, and what the lab
// shows.
var levels = map[api.Code]slog.Level{
	api.Internal:           slog.LevelError,
	api.OutcomeUnknown:     slog.LevelWarn,
	api.BackendUnavailable: slog.LevelWarn,
}

// report logs the cause of a problem: at most one line per second and code, so that a dead backend under load does not
// fill the disk. A client that went away is no error of the service.
func (a *answers) report(c *gin.Context, code api.Code, err error) {
	r := c.Request
	ctx := r.Context()
	level, loud := levels[code]
	if !loud || ctx.Err() != nil {
		level = slog.LevelDebug
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	if skipped, ok := a.throttle.Allow(string(code), time.Now()); ok {
		a.log.LogAttrs(ctx, level, "request failed", append(names(c.Writer, r), slog.Any("code", code),
			slog.String("path", r.URL.Path), slog.Any("err", err), slog.Int("not_logged", skipped))...)
	}
}

// underlying is the server's own writer below gin's, which a body that is too large must reach to close its connection.
func underlying(c *gin.Context) http.ResponseWriter {
	if w, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return w.Unwrap()
	}
	return c.Writer
}
