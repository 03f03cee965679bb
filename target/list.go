package target

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"lastitem/say/text"
)

// list is what a source shows.
type list struct {
	rows   []row
	less   []row  // what is taken away from them, of a stock
	cached string // the header that says that the answer comes from a cache; "" = none does
	total  int64  // how many rows there are, as the answer says; -1 = it does not
}

var nextLink = regexp.MustCompile(`<([^>]*)>[^,<]*;\s*rel="?next"?`)

// nextOf is the path of the page after this one; "" = there is none. A host in it does not count: behind a proxy it is
// another than the one that was asked.
func nextOf(r Reply, here string) (string, error) {
	next := ""
	if m := nextLink.FindStringSubmatch(strings.Join(r.Header.Values("Link"), ", ")); m != nil {
		next = m[1]
	}
	for _, at := range []string{"/next", "/links/next", "/_links/next/href", "/next_page_url", "/nextPage",
		"/@odata.nextLink", "/next_cursor", "/nextCursor", "/next_page_token", "/nextPageToken"} {
		if v, err := pick(r.Body, at); err == nil && next == "" {
			next = strings.Trim(string(v), `"`)
			if !strings.HasPrefix(string(v), `"`) { // null, false or an object
				next = ""
			} else if next != "" && !strings.ContainsAny(next, "/?") {
				return "", unfit(text.Of("the answer has one more page, %q, which is no address: give a path that shows all "+
					"rows"), next)
			}
		}
	}
	if next == "" {
		return "", open(r)
	}
	base, err := url.Parse(here)
	if err != nil {
		return "", err
	}
	to, err := base.Parse(strings.ReplaceAll(next, `\/`, "/"))
	if err != nil {
		return "", unfit(text.Of("the answer has one more page, %q, which is no address: give a path that shows all "+
			"rows"), next)
	}
	return to.RequestURI(), nil
}

// announced are the members by which a list says that it goes on, and how many pages it has.
var announced = regexp.MustCompile(`"(?:has_?[mM]ore|has_?[nN]ext(?:_?[pP]age)?)"\s*:\s*true|` +
	`"(?:last_?[pP]age|total_?[pP]ages)"\s*:\s*(?:[2-9]|1\d)`)

// open returns an error if a list without an address of a next page says that it has more rows.
func open(r Reply) error {
	if found := announced.Find(r.Body); found != nil || r.Status == http.StatusPartialContent {
		return unfit(text.Of("the answer is not the whole list, as its %s says: give a path that shows all rows"),
			cmp.Or(string(found), "status 206"))
	}
	return nil
}

// below is a path of a host as a path after an address that may end with one. Where a proxy adds that, the path that a
// service gives does not have it.
func below(address, path string) string {
	u, err := url.Parse(address)
	if err != nil {
		return path
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, u.EscapedPath()+"/"), "/")
}

// totalOf is how many rows a list has in all, as the answer says; -1 = it does not. A number that is called total may
// be money: see [tried].
func totalOf(r Reply) int64 {
	for _, name := range []string{"X-Total-Count", "X-WP-Total", "X-Total"} {
		if n, err := strconv.ParseInt(r.Header.Get(name), 10, 64); err == nil {
			return n
		}
	}
	for _, in := range []string{"", "/meta", "/pagination", "/page"} {
		for _, name := range []string{"/total_count", "/totalCount", "/total_items", "/totalElements", "/count", "/total"} {
			var n json.Number
			if v, err := pick(r.Body, in+name); err == nil && json.Unmarshal(v, &n) == nil {
				if whole, err := n.Int64(); err == nil {
					return whole
				}
			}
		}
	}
	return -1
}

// cachedBy is the header by which an answer says that it comes from a cache; "" = none does.
func cachedBy(r Reply) string {
	for _, name := range []string{"Age", "X-Cache", "CF-Cache-Status", "X-Cache-Status", "X-Varnish-Cache"} {
		switch v := r.Header.Get(name); {
		case name == "Age" && v != "" && v != "0", strings.Contains(strings.ToUpper(v), "HIT"):
			return name + ": " + v
		}
	}
	return ""
}
