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
	less   []row            // what is taken away from them, of a stock
	cached string           // the header that says that the answer comes from a cache; "" = none does
	total  int64            // how many rows there are, as the answer says; -1 = it does not
	parts  map[string]int64 // of the stock that was read last, beside orders
}

var nextLink = regexp.MustCompile(`<([^>]*)>[^,<]*;\s*rel="?next"?`)

// The members that an answer may have around a list, or in a member beside it, about its pages and its length.
var (
	besideNames = []string{"links", "_links", "data", "meta", "pagination", "paging", "page", "pageInfo", "page_info"}
	nextNames   = []string{"next", "next_page_url", "nextPage", "next_page", "nextLink", "@odata.nextLink", "next_cursor",
		"nextCursor", "next_page_token", "nextPageToken"}
	totalNames = []string{"total_count", "totalCount", "total_items", "totalItems", "totalElements", "totalResults",
		"total_records", "totalRecords", "recordsTotal", "@odata.count", "count", "total"}
)

// around are the objects of an answer around the list at a pointer, and those beside it.
func around(body []byte, pointer string) (all []map[string]json.RawMessage) {
	names := strings.Split(strings.Trim(pointer, "/"), "/")
	for i := range names {
		var object map[string]json.RawMessage
		if v, err := pick(body, strings.Join(names[:i], "/")); err != nil || json.Unmarshal(v, &object) != nil {
			continue
		}
		all = append(all, object)
		for _, name := range besideNames {
			var beside map[string]json.RawMessage
			if json.Unmarshal(object[name], &beside) == nil {
				all = append(all, beside)
			}
		}
	}
	return all
}

// nextIn is the page that a member names: an address, or a number or a word that stands for it; "" = none.
func nextIn(v json.RawMessage) string {
	var link struct{ Href string }
	switch n, err := strconv.Atoi(string(v)); {
	case json.Unmarshal(v, &link) == nil:
		return link.Href
	case strings.HasPrefix(string(v), `"`), err == nil && n > 0:
		return scalar(v)
	}
	return "" // null, false, 0
}

// nextOf is the path of the page after this one; "" = there is none. A host in it does not count: behind a proxy it is
// another than the one that was asked.
func (l list) nextOf(r Reply, here string, near []map[string]json.RawMessage) (string, error) {
	next := ""
	if m := nextLink.FindStringSubmatch(strings.Join(r.Header.Values("Link"), ", ")); m != nil {
		next = m[1]
	}
	for _, object := range near {
		for _, name := range nextNames {
			next = cmp.Or(next, nextIn(object[name]))
		}
	}
	if next == "" {
		return "", l.open(r)
	}
	base, err := url.Parse(here)
	if err != nil {
		return "", err
	}
	to, err := base.Parse(next)
	if err != nil || !strings.ContainsAny(next, "/?") {
		return "", unfit(text.Of("the answer has one more page, %q, which is no address: give a path that shows all "+
			"rows"), next)
	}
	return to.RequestURI(), nil
}

// announced are the members by which a list says that it goes on, and how many pages it has.
var announced = regexp.MustCompile(`"(?:has_?[mM]ore|has_?[nN]ext(?:_?[pP]age)?)"\s*:\s*true|` +
	`"(?:last_?[pP]age|total_?[pP]ages)"\s*:\s*(?:[2-9]|1\d)`)

// open returns an error if a list without an address of a next page says that it has more rows.
func (l list) open(r Reply) error {
	if found := announced.Find(r.Body); found != nil || r.Status == http.StatusPartialContent && l.total < 0 {
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
func totalOf(r Reply, near []map[string]json.RawMessage) int64 {
	_, of, _ := strings.Cut(r.Header.Get("Content-Range"), "/")
	for _, said := range []string{of, r.Header.Get("X-Total-Count"), r.Header.Get("X-WP-Total"), r.Header.Get("X-Total")} {
		if n, err := strconv.ParseInt(said, 10, 64); err == nil {
			return n
		}
	}
	for _, object := range near {
		for _, name := range totalNames {
			if n, err := strconv.ParseInt(scalar(object[name]), 10, 64); err == nil {
				return n
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
