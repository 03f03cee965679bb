package handler

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/internal/stock"
)

// A client whose first request's process was killed is told when its key is free.
func TestRetryAfterOfAKeyInFlight(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]string{0: "1", time.Second: "1", 8100 * time.Millisecond: "9", 10 * time.Second: "10"} {
		w := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(w)
		c.Request = httptest.NewRequest(http.MethodPost, "/deduct_stock/idempotent", nil)
		(&Handler{Options: Options{Log: slog.New(slog.DiscardHandler)}}).fail(c, fmt.Errorf("wrapped: %w", &stock.InFlightError{Left: left, Cause: stock.ErrLockBusy}))
		if got := w.Header().Get("Retry-After"); w.Code != 409 || got != want {
			t.Errorf("with %s left: %d, Retry-After %q, want 409 and %q", left, w.Code, got, want)
		}
	}
}
