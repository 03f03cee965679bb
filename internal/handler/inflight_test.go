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

// A client is told to come back soon while the first request may be alive, later the longer nothing was heard of it, and when its key
// is free at the latest.
func TestRetryAfterOfAKeyInFlight(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		held, left time.Duration
		want       string
	}{
		{0, 10 * time.Second, "1"}, {3 * time.Millisecond, 10 * time.Second, "1"}, {2100 * time.Millisecond, 8 * time.Second, "3"},
		{8 * time.Second, 2 * time.Second, "2"}, {9500 * time.Millisecond, 500 * time.Millisecond, "1"}, {10 * time.Second, 0, "1"},
	} {
		w := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(w)
		c.Request = httptest.NewRequest(http.MethodPost, "/deduct_stock/idempotent", nil)
		(&Handler{Options: Options{Log: slog.New(slog.DiscardHandler)}}).fail(c, fmt.Errorf("wrapped: %w", &stock.InFlightError{Held: row.held, Left: row.left, Cause: stock.ErrLockBusy}))
		if got := w.Header().Get("Retry-After"); w.Code != 409 || got != row.want {
			t.Errorf("held for %s, %s left: %d, Retry-After %q, want 409 and %q", row.held, row.left, w.Code, got, row.want)
		}
	}
}
