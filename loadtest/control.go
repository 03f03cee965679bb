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

	"lastitem/contract/api"
	"lastitem/loadtest/client"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// Control talks to the service outside the load: it lists the modes, sets the stock and reads the ledger. It is safe
// for concurrent use; set its fields before the first use.
type Control struct {
	// Replicas is how many processes are behind the address; 0 = not known. With one, the claim for threads is checked;
	// with more, the claim for replicas, and a run that a single replica served is vacuous. If it is not known, the number
	// of replicas that answered decides which claim is checked.
	Replicas int
	// Lang is the language of the judge's sentences: "zh", else English.
	Lang string

	base    string
	client  *resty.Client
	maxRows int // of a ledger
}

// What may be at the other end is not always a shop: a control call is bounded in time, its answer in bytes, and a
// ledger in rows.
const (
	controlTimeout = 60 * time.Second // a page of a ledger takes less than a second
	maxAnswer      = 64 << 20         // bytes; the longest answer of a shop is a page of its ledger, some megabytes
	maxLedger      = 10_000_000       // rows
)

// ErrUnauthorized is returned by [Control.SetStock], wrapped, if the token is missing or wrong.
var ErrUnauthorized = text.Of("the service wants its admin token").Errorf()

// NewControl returns the control of the service at baseURL, http or https. token is its admin token; without one the
// modes and the ledger can be read, but no run can be started.
func NewControl(baseURL, token string) (*Control, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault(text.Of("--url must be a URL like http://127.0.0.1:8080, not %q"), redact.Address(baseURL))
	}
	base := strings.TrimRight(u.String(), "/")
	client := resty.New().SetBaseURL(base).SetTimeout(controlTimeout).SetResponseBodyLimit(maxAnswer).
		SetLogger(client.Silent{}).SetHeader("Accept", "application/json")
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

// SetStock creates or resets the product: stock in every store, split into segments unless that is 0, no orders, no
// locks, no keys; a row per unit if segments < 0. It needs the admin token.
func (c *Control) SetStock(ctx context.Context, product, stock int64, segments int) error {
	return c.setStock(ctx, product, api.SetStock{Stock: stock, Segments: max(0, segments),
		Units: segments < 0})
}

func (c *Control) setStock(ctx context.Context, product int64, setting api.SetStock) error {
	path := "/products/" + strconv.FormatInt(product, 10) + "/stock"
	resp, err := c.client.R().SetContext(ctx).SetBody(setting).Put(path)
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
		return fault(text.Of("GET %s: the answer is not that of lastitem: %w"), path, err)
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
		hint := text.Of("set SHOP_ADMIN_TOKEN or --token")
		if resp.Request.RawRequest.Header.Get("Authorization") != "" {
			hint = text.Of("the one in SHOP_ADMIN_TOKEN or --token is another")
		}
		return fault(text.Of("%s %s: %w: %s"), method, path, ErrUnauthorized, hint)
	}
	var p api.Problem
	if !client.IsProblem([]byte(resp.Header().Get("Content-Type"))) || json.Unmarshal(resp.Body(), &p) != nil ||
		p.Code == "" {
		return fault(text.Of("%s %s: %s; is that address lastitem's?"), method, path, resp.Status())
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
	var hint text.Text
	if errors.Is(err, resty.ErrResponseBodyTooLarge) {
		return fault(text.Of("%s %s: the answer has more than %d MiB; is that address lastitem's?"), method, path,
			maxAnswer>>20)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		hint = text.Of("; is a shop running there? 'shop up' starts one, --url names another")
	}
	return fault(text.Of("%s %s: %w%s"), method, path, err, hint)
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
