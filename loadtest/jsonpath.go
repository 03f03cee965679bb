package loadtest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"lastitem/internal/api"
)

// numberAt returns the whole number that path leads to in a JSON body: names joined by dots, places in arrays in brackets, as in
// "data.items[0].stock"; "" is the body itself. A string that contains a number counts as a number.
func numberAt(body []byte, path string) (int64, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // a float64 would round large numbers
	var value any
	if err := decoder.Decode(&value); err != nil {
		return 0, fault(api.Text{En: "the answer is not JSON: %.60q", Zh: "应答不是 JSON：%.60q"}, body)
	}
	for _, step := range steps(path) {
		var ok bool
		if value, ok = into(value, step); !ok {
			return 0, fault(api.Text{En: "the answer has no %q of --stock-json-path %q", Zh: "应答里没有 %q（--stock-json-path %q）"}, step, path)
		}
	}
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault(api.Text{En: "--stock-json-path %q leads to no whole number", Zh: "--stock-json-path %q 指向的不是整数"}, path)
	}
	return n, nil
}

// steps splits a path into names and "[n]": "a.b[0]" is "a", "b", "[0]". A leading "$", as in JSONPath, is allowed.
func steps(path string) []string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".")
	if path == "" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(strings.ReplaceAll(path, "[", ".["), "."), ".")
}

// into takes one step into a value: a name into an object, a place into an array.
func into(value any, step string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		inner, ok := v[step]
		return inner, ok
	case []any:
		if !strings.HasPrefix(step, "[") || !strings.HasSuffix(step, "]") {
			return nil, false
		}
		i, err := strconv.Atoi(step[1 : len(step)-1])
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}
