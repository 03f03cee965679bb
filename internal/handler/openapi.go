package handler

import (
	_ "embed" // the document
	"net/http"

	"github.com/gin-gonic/gin"
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
