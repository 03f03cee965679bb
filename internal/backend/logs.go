package backend

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/grpclog"
)

// LibraryLogs sends what the libraries print by themselves to a log, such as each failed dial; what matters of it comes
// back as an error too. Their loggers belong to the process.
func LibraryLogs(log *slog.Logger) {
	redis.SetLogger(libraryLog{log, "go-redis"})
	_ = mysql.SetLogger(libraryLog{log, "go-sql-driver"}) // its error is that of nil
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard,
		slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()))
}

// libraryLog is the logger of a library.
type libraryLog struct {
	log  *slog.Logger
	name string
}

// Printf logs at level debug.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "a library says", "name", l.name, "text", fmt.Sprintf(format, args...))
}

// Print does the same.
func (l libraryLog) Print(args ...any) {
	l.log.Debug("a library says", "name", l.name, "text", fmt.Sprint(args...))
}
