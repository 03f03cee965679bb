package handler

import (
	_ "embed" // the document
	"net/http"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// openAPIDocument is written by hand; the tests hold it against the routes, the codes and live answers.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI serves GET /openapi.json.
func (h *Handler) openAPI(c *gin.Context) outcome {
	write(c, http.StatusOK, typeJSON, openAPIDocument)
	return outcome{}
}

// explanation is the body of GET /problems/{code}, to which the type of each problem points.
type explanation struct {
	Code     api.Code     `json:"code"`
	Status   int          `json:"status"`
	Title    string       `json:"title"`
	Happened api.Happened `json:"happened"`
	Text     text.Text    `json:"text"`
}

// explain serves GET /problems/{code}, in both languages at once: a link says nothing about the reader's language.
func (h *Handler) explain(c *gin.Context) outcome {
	code := api.Code(c.Param("code"))
	said, ok := explanations[code]
	if !ok {
		return outcome{code: h.fail(c, errNotFound)}
	}
	f := api.Codes[code]
	return h.send(c, explanation{Code: code, Status: f.Status, Title: f.Title, Happened: f.Happened, Text: said})
}
