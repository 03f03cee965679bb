package handler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
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
func (h *Handler) send(c *gin.Context, v any) outcome {
	body, err := encode(v)
	if err != nil {
		return outcome{code: h.fail(c, err)}
	}
	// A request that has changed something is always answered.
	if len(body) > patientBody && c.Request.Method == http.MethodGet {
		if !h.large.try() {
			return outcome{code: h.fail(c, errTooManyAnswers)}
		}
		defer h.large.leave()
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
