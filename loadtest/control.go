package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-resty/resty/v2"

	"lastitem/internal/api"
	"lastitem/internal/redact"
	"lastitem/loadtest/client"
)

// Control talks to the service outside the load: it lists the modes, sets the stock and reads the ledger. It is safe for concurrent use;
// set its fields before the first use.
type Control struct {
	// Replicas is how many processes are behind the address; 0 = not known. With one, the claim for threads is checked; with more, the
	// claim for replicas, and a run that a single replica served is vacuous. If it is not known, the number of replicas that answered
	// decides which claim is checked.
	Replicas int
	// Lang is the language of the judge's sentences: "zh", else English.
	Lang string

	base    string
	client  *resty.Client
	maxRows int // of a ledger
}

// What may be at the other end is not always a shop: a control call is bounded in time, its answer in bytes, and a ledger in rows.
const (
	controlTimeout = 60 * time.Second // a page of a ledger takes less than a second
	maxAnswer      = 64 << 20         // bytes; the longest answer of a shop is a page of its ledger, some megabytes
	maxLedger      = 10_000_000       // rows
)

// ErrUnauthorized is returned by [Control.SetStock], wrapped, if the token is missing or wrong.
var ErrUnauthorized = api.Text{En: "the service wants its admin token", Zh: "服务需要管理员令牌"}.Errorf()

// NewControl returns the control of the service at baseURL, http or https. token is its admin token; without one the modes
// and the ledger can be read, but no run can be started.
func NewControl(baseURL, token string) (*Control, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault(api.Text{En: "--url must be a URL like http://127.0.0.1:8080, not %q", Zh: "--url 应为 http://127.0.0.1:8080 这样的地址，不能是 %q"}, redact.Address(baseURL))
	}
	base := strings.TrimRight(u.String(), "/")
	client := resty.New().SetBaseURL(base).SetTimeout(controlTimeout).SetResponseBodyLimit(maxAnswer).SetLogger(client.Silent{}).SetHeader("Accept", "application/json")
	if token != "" {
		client.SetAuthScheme("Bearer").SetAuthToken(token).SetDisableWarn(true)
	}
	return &Control{base: base, client: client, maxRows: maxLedger}, nil
}

// Close closes the idle connections.
func (c *Control) Close() { c.client.GetClient().CloseIdleConnections() }

// Modes returns the registry, in teaching order, without the essays.
func (c *Control) Modes(ctx context.Context) ([]api.Mode, error) {
	var modes api.Modes
	err := c.get(ctx, "/modes", &modes)
	return modes.Modes, err
}

// Product returns the stock of a product in every store.
func (c *Control) Product(ctx context.Context, product int64) (api.Product, error) {
	var p api.Product
	err := c.get(ctx, "/products/"+strconv.FormatInt(product, 10), &p)
	return p, err
}

// SetStock creates or resets the product: stock in every store, split into segments unless that is 0, no orders, no locks, no keys. It
// needs the admin token.
func (c *Control) SetStock(ctx context.Context, product, stock int64, segments int) error {
	path := "/products/" + strconv.FormatInt(product, 10) + "/stock"
	resp, err := c.client.R().SetContext(ctx).SetBody(api.SetStock{Stock: stock, Segments: segments}).Put(path)
	return explain(http.MethodPut, path, resp, err)
}

// get reads path into body, unless that is nil.
func (c *Control) get(ctx context.Context, path string, body any) error {
	resp, err := c.client.R().SetContext(ctx).Get(path)
	if err := explain(http.MethodGet, path, resp, err); err != nil {
		return err
	}
	if body == nil {
		return nil
	}
	if err := json.Unmarshal(resp.Body(), body); err != nil {
		return fault(api.Text{En: "GET %s: the answer is not that of lastitem: %w", Zh: "GET %s：应答不像来自 lastitem：%w"}, path, err)
	}
	return nil
}

// explain returns the error of a control call, with advice; nil if the call succeeded.
func explain(method, path string, resp *resty.Response, err error) error {
	if err != nil {
		return unreached(method, path, err)
	}
	if resp.IsSuccess() {
		return nil
	}
	if resp.StatusCode() == http.StatusUnauthorized {
		hint := api.Text{En: "set SHOP_ADMIN_TOKEN or --token", Zh: "请设置 SHOP_ADMIN_TOKEN 或 --token"}
		if resp.Request.RawRequest.Header.Get("Authorization") != "" {
			hint = api.Text{En: "the one in SHOP_ADMIN_TOKEN or --token is another", Zh: "SHOP_ADMIN_TOKEN 或 --token 给的令牌不对"}
		}
		return fault(api.Text{En: "%s %s: %w: %s", Zh: "%s %s：%w：%s"}, method, path, ErrUnauthorized, hint)
	}
	var p api.Problem
	if !client.IsProblem([]byte(resp.Header().Get("Content-Type"))) || json.Unmarshal(resp.Body(), &p) != nil || p.Code == "" {
		return fault(api.Text{En: "%s %s: %s; is that address lastitem's?", Zh: "%s %s：%s；这个地址是 lastitem 吗？"}, method, path, resp.Status())
	}
	if p.Detail == "" {
		p.Detail = p.Title
	}
	return &ProblemError{Method: method, Path: path, Problem: p}
}

// unreached returns the error of a call without an answer, without the method, which net/http's error repeats.
func unreached(method, path string, err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		path, err = e.URL, e.Err
	}
	var hint api.Text
	if errors.Is(err, resty.ErrResponseBodyTooLarge) {
		return fault(api.Text{En: "%s %s: the answer has more than %d MiB; is that address lastitem's?", Zh: "%s %s：应答超过 %d MiB；这个地址是 lastitem 吗？"}, method, path, maxAnswer>>20)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		hint = api.Text{En: "; is a shop running there? 'shop up' starts one, --url names another", Zh: "；那里有服务在运行吗？'shop up' 可以起一套，--url 可以换地址"}
	}
	return fault(api.Text{En: "%s %s: %w%s", Zh: "%s %s：%w%s"}, method, path, err, hint)
}

// ProblemError is a problem document that the service returned to a control call.
type ProblemError struct {
	Method, Path string
	Problem      api.Problem
}

// Error gives the call and the answer.
func (e *ProblemError) Error() string {
	return fmt.Sprintf("loadtest: %s %s: %d %s: %s", e.Method, e.Path, e.Problem.Status, e.Problem.Code, e.Problem.Detail)
}
