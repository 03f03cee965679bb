package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/input"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

func decode(t testing.TB, body string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
}

func problem(t testing.TB, a answer) (p api.Problem) {
	t.Helper()
	decode(t, a.body, &p)
	return p
}

// sentinels names every error that package stock exports, with its code.
var sentinels = map[string]struct {
	err  error
	code api.Code
}{
	"ErrSoldOut":        {&stock.SoldOutError{ProductID: 101, Requested: 5, Available: 0}, api.SoldOut},
	"ErrSegmented":      {stock.ErrSegmented, api.ProductSegmented},
	"ErrUnknownProduct": {stock.ErrUnknownProduct, api.UnknownProduct},
	"ErrUnknownMode":    {stock.ErrUnknownMode, api.UnknownMode},
	"ErrInvalid": {&stock.InvalidError{Field: "store", Why: "mode mutex has no such store"},
		api.InvalidRequest},
	"ErrKeyMissing":      {stock.ErrKeyMissing, api.KeyMissing},
	"ErrKeyReused":       {stock.ErrKeyReused, api.KeyReused},
	"ErrTooLate":         {fmt.Errorf("%w: %w", stock.ErrLockBusy, stock.ErrTooLate), api.BackendUnavailable},
	"ErrInFlight":        {stock.ErrInFlight, api.InFlight},
	"ErrLockBusy":        {stock.ErrLockBusy, api.LockBusy},
	"ErrLockLost":        {stock.ErrLockLost, api.LockLost},
	"ErrLockClosed":      {stock.ErrLockClosed, api.BackendUnavailable},
	"ErrLockUnavailable": {stock.ErrLockUnavailable, api.BackendUnavailable},
	"ErrLockVersion": {fmt.Errorf("%w: %w", stock.ErrLockUnavailable, stock.ErrLockVersion),
		api.BackendUnavailable},
	"ErrContended":   {stock.ErrContended, api.Contended},
	"ErrCopy":        {stock.ErrCopy, api.StaleRead},
	"ErrUnavailable": {stock.ErrUnavailable, api.BackendUnavailable},
	"ErrRefused": {fmt.Errorf("%w: %w", stock.ErrLockUnavailable, stock.ErrRefused),
		api.BackendUnavailable},
	"ErrForbidden":              {fmt.Errorf("%w: %w", stock.ErrForbidden, stock.ErrUnavailable), api.BackendUnavailable},
	"ErrModeUnavailable":        {stock.ErrModeUnavailable, api.ModeUnavailable},
	"ErrUnknown":                {stock.ErrUnknown, api.OutcomeUnknown},
	"ErrOtherRun":               {stock.ErrOtherRun, api.OutcomeUnknown},
	"ErrNoReservation":          {stock.ErrNoReservation, api.UnknownReservation},
	"ErrNoOrder":                {stock.ErrNoOrder, api.UnknownOrder},
	"ErrNoTicket":               {stock.ErrNoTicket, api.UnknownTicket},
	"ErrPaymentReused":          {stock.ErrPaymentReused, api.KeyReused},
	"ErrReservationUnsupported": {stock.ErrReservationUnsupported, api.HoldUnsupported},
	"ErrReturnUnsupported":      {stock.ErrReturnUnsupported, api.ReturnUnsupported},
	"ErrAdjustUnsupported":      {stock.ErrAdjustUnsupported, api.AdjustUnsupported},
	"ErrOtherWay":               {stock.ErrOtherWay, api.LimitUnsupported},
	"ErrReconcile":              {stock.ErrReconcile, api.ReconcileRefused},
	"ErrReservationEnded":       {&stock.ReservationEndedError{State: ledger.Void}, api.ReservationExpired},
	"ErrLimit":                  {stock.ErrLimit, api.LimitReached},
	"ErrQueueFull":              {stock.ErrQueueFull, api.QueueFull},
	"ErrCrowded":                {stock.ErrCrowded, api.RateLimited},
}

func TestEverySentinelHasItsCode(t *testing.T) {
	t.Parallel()
	for name, s := range sentinels {
		a := ask(t, newHandler(t, refusing(fmt.Errorf("secret 10.0.0.1: %w", s.err))), "POST", "/deduct_stock/mutex", "")
		if p := problem(t, a); p.Code != s.code || strings.Contains(a.body, "secret") || p.Instance != "/deduct_stock/mutex" {
			t.Errorf("%s: %s, want code %s and no cause", name, a.body, s.code)
		}
	}
}

// A backend that is not down is not blamed: while two versions of the lock engine run, the answer says so, and when to
// try again. A server that refuses has answered, and a repetition does not help against what an operator must change.
func TestRefusalIsExplained(t *testing.T) {
	t.Parallel()
	for name, detail := range map[string]string{
		"ErrRefused": "a backend answered, and refuses for now", "ErrForbidden": "until an operator changes that, and a " +
			"repetition does not",
		"ErrLockVersion": "another version", "ErrLockClosed": "shutting down",
	} {
		a := ask(t, newHandler(t, refusing(sentinels[name].err)), "POST", "/deduct_stock/mutex", "")
		again, p := a.Header.Get("Retry-After"), problem(t, a)
		if !strings.Contains(p.Detail, detail) || p.Happened != api.NoForNow || again == "" ||
			a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s, Retry-After %q, want 503, %q", name, a.StatusCode, a.body, again, detail)
		}
	}
	for _, setErr := range []error{
		fmt.Errorf("%w: %w", stock.ErrForbidden, stock.ErrUnavailable),
		fmt.Errorf("%w: %w", stock.ErrUnknown, stock.ErrForbidden),
	} {
		h := newHandler(t, &fakeShop{setStock: func(int64, int64, int) error { return setErr }})
		a := ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Content-Type", "application/json", "Authorization",
			"Bearer "+adminToken)
		if p := problem(t, a); strings.Contains(a.body, "may be repeated") ||
			!strings.Contains(p.Detail, "until an operator changes that") {
			t.Errorf("PUT of a stock that is refused for good: %s", a.body)
		}
	}
}

func TestSentinelsAreAllOfThem(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../stock/errors.go", nil, 0)
	testkit.Must(t, err)
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && ast.IsExported(v.Names[0].Name) {
			names = append(names, v.Names[0].Name)
		}
		return true
	})
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(sentinels)); !slices.Equal(names, want) {
		t.Errorf("package stock exports %v, the table above has %v", names, want)
	}
}

func TestEveryCodeIsReached(t *testing.T) {
	t.Parallel()
	reached := map[api.Code]bool{}
	for _, s := range sentinels {
		reached[s.code] = true
	}
	for _, ended := range []ledger.ReservationState{ledger.Cancelled, ledger.Confirmed} {
		reached[problemOf(&stock.ReservationEndedError{State: ended}, "").Code] = true
	}
	h := newHandler(t, refusing(errors.New("nobody foresaw this")))
	for _, a := range []answer{
		ask(t, h, "GET", "/nope", ""),
		ask(t, h, "GET", "/deduct_stock", ""),
		ask(t, h, "POST", "/deduct_stock", "", "Origin", "https://evil.example"),
		ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Content-Type", "application/json"),
		ask(t, h, "POST", "/deduct_stock", strings.Repeat(" ", input.MaxBody+1), "Content-Type", "application/json"),
		ask(t, h, "POST", "/deduct_stock", "x", "Content-Type", "text/plain"),
		ask(t, h, "POST", "/deduct_stock", ""),
	} {
		reached[problem(t, a).Code] = true
	}
	for range 100 * tokenBurst { // on a slow machine the bucket fills up meanwhile
		if reached[api.RateLimited] {
			break
		}
		reached[problem(t, ask(t, h, "PUT", "/products/101/stock", `{"stock":1}`, "Authorization",
			"Bearer wrong")).Code] = true
	}
	for code := range api.Codes {
		if !reached[code] {
			t.Errorf("no answer has code %s", code)
		}
	}
}

func TestUnknownOutweighsNo(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fmt.Errorf("%w: %w", stock.ErrUnavailable, stock.ErrUnknown),
		errors.Join(stock.ErrSoldOut, stock.ErrUnknown),
	} {
		if p := problemOf(err, ""); p.Code != api.OutcomeUnknown {
			t.Errorf("problemOf(%v) = %s, want %s", err, p.Code, api.OutcomeUnknown)
		}
	}
	err := fmt.Errorf("%w: mutex: %w", stock.ErrModeUnavailable, stock.ErrUnavailable)
	if p := problemOf(err, ""); p.Code != api.ModeUnavailable {
		t.Errorf("problemOf(%v) = %s, want %s", err, p.Code, api.ModeUnavailable)
	}
}

func TestARefusalNamesTheProduct(t *testing.T) {
	t.Parallel()
	for code, refusal := range map[api.Code]error{
		api.UnknownProduct:   &ledger.ProductError{Err: stock.ErrUnknownProduct, ProductID: 102},
		api.ProductSegmented: &ledger.ProductError{Err: stock.ErrSegmented, ProductID: 102},
		api.SoldOut:          &stock.SoldOutError{ProductID: 102, Requested: 5, Available: 0},
	} {
		a := ask(t, newHandler(t, refusing(fmt.Errorf("by the consumer: %w", refusal))), "POST", "/deduct_stock/sql-atomic",
			`{"items":[{"product_id":101},{"product_id":102}]}`,
			"Content-Type", "application/json")
		if p := problem(t, a); p.Code != code || p.ProductID != 102 || !strings.HasPrefix(p.Detail, "product 102: ") {
			t.Errorf("%s = %s, want it to name product 102", code, a.body)
		} else if code == api.SoldOut && (a.StatusCode != http.StatusConflict || *p.Requested != 5 || p.Available == nil ||
			*p.Available != 0) {
			t.Errorf("sold out = %d %s, want 409 and its numbers", a.StatusCode, a.body)
		}
	}
}

// A refusal because a backend, or the product in one store, is missing says which one and what to do.
func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	lacks := errors.New("no etcd configured: make up PROFILES=etcd")
	for want, refusal := range map[string]error{
		"mode etcd-txn lacks a backend: no etcd configured: make up PROFILES=etcd":                           &stock.ModeError{Mode: "etcd-txn", Lacks: lacks},
		"mode mutex with store sql lacks a backend: no SQL database configured: set SHOP_SQL":                &stock.ModeError{Mode: "mutex", Store: stock.SQL, Lacks: errors.New("no SQL database configured: set SHOP_SQL")},
		"product 101: etcd does not have it; another store may, since a store that was added later is empty": &ledger.ProductError{Err: stock.ErrUnknownProduct, ProductID: 101, Store: "etcd"},
		"nothing was sent: kafka: 12 of 12 partitions of lastitem-requests: its consumers have not answered yet": &stock.NotReadyError{
			Why: "kafka: 12 of 12 partitions of lastitem-requests: its consumers have not answered yet",
		},
		"product 101: none of the stores that were asked has this product; PUT": &ledger.ProductError{Err: stock.ErrUnknownProduct, ProductID: 101},
	} {
		a := ask(t, newHandler(t, refusing(fmt.Errorf("secret 10.0.0.1: %w", refusal))), "POST", "/deduct_stock/mutex", "")
		if p := problem(t, a); !strings.HasPrefix(p.Detail, want) || strings.Contains(a.body, "secret") {
			t.Errorf("detail = %q, want %q", p.Detail, want)
		}
	}
}

func logged(o *Options) *bytes.Buffer {
	var buf bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&buf, nil))
	return &buf
}

func TestCausesAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the clock stands still: what is held back is held back
		cause := errors.New("dial 10.0.0.1")
		var log *bytes.Buffer
		h := newHandler(t, refusing(fmt.Errorf("%w: %w", stock.ErrUnavailable, cause)), func(o *Options) { log = logged(o) })
		for range 3 {
			ask(t, h, "POST", "/deduct_stock/mutex", "")
		}
		if got := strings.Count(log.String(), cause.Error()); got != 1 {
			t.Errorf("the cause was logged %d times in one second, want 1:\n%s", got, log)
		}
	})
}

func TestAClientThatLeftIsNotLogged(t *testing.T) {
	t.Parallel()
	var log *bytes.Buffer
	shop := &fakeShop{deduct: func(ctx context.Context, _ string, _ stock.Request) (stock.Receipt, error) {
		return stock.Receipt{}, ctx.Err()
	}}
	h := newHandler(t, shop, func(o *Options) { log = logged(o) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/deduct_stock", nil))
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

func TestPanicIsAnInternalProblem(t *testing.T) {
	t.Parallel()
	var log *bytes.Buffer
	shop := &fakeShop{deduct: func(context.Context, string, stock.Request) (stock.Receipt, error) { panic("boom") }}
	a := ask(t, newHandler(t, shop, func(o *Options) { log = logged(o) }), "POST", "/deduct_stock", "")
	if p := problem(t, a); p.Code != api.Internal || strings.Contains(a.body, "boom") {
		t.Errorf("panic = %s", a.body)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "problem_test.go") {
		t.Errorf("the log does not say where it panicked:\n%s", log)
	}
}
