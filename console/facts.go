package console

import (
	"encoding/json"
	"net/http"
)

// Witness names a schedule of the fault lab by its cell and the letter that it showed. Without a letter it names a cell
// that nothing broke.
type Witness struct{ Mode, Store, Fault, Letter string }

// Facts has the contents of the pages other than runs. It does not change while the console runs. If a field is nil,
// the console lacks that page.
type Facts struct {
	// Matrix is the body of GET /console/api/matrix: the results of the fault lab, cell by cell.
	Matrix json.RawMessage
	// Witness returns the body of GET /console/api/witness; false = there is no such witness.
	Witness func(Witness) (json.RawMessage, bool)
	// Book is the documentation.
	Book *Book
}

// matrix serves GET /console/api/matrix.
func (c *Console) matrix(w http.ResponseWriter, _ *http.Request) {
	if c.options.Facts.Matrix == nil {
		fail(w, errNotFound)
		return
	}
	send(w, http.StatusOK, c.options.Facts.Matrix)
}

// witness serves GET /console/api/witness?mode=M&store=S&fault=F&letter=L.
func (c *Console) witness(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if c.options.Facts.Witness == nil {
		fail(w, errNotFound)
		return
	}
	story, there := c.options.Facts.Witness(Witness{Mode: q.Get("mode"), Store: q.Get("store"), Fault: q.Get("fault"),
		Letter: q.Get("letter")})
	if !there {
		fail(w, errNotFound)
		return
	}
	send(w, http.StatusOK, story)
}

// language returns the language of a request.
func language(r *http.Request) string {
	if r.URL.Query().Get("lang") == "zh" {
		return "zh"
	}
	return "en"
}

// bookRoutes adds the routes of the documentation, if there is one.
func (c *Console) bookRoutes(mux *http.ServeMux) {
	book := c.options.Facts.Book
	if book == nil {
		return
	}
	serve := func(route string, answer func(r *http.Request) (body any, there bool)) {
		mux.HandleFunc(route, c.access.wants(func(w http.ResponseWriter, r *http.Request) {
			body, there := answer(r)
			if !there {
				fail(w, errNotFound)
				return
			}
			send(w, http.StatusOK, body)
		}))
	}
	serve("GET /console/api/pages", func(r *http.Request) (any, bool) { return book.List(language(r)), true })
	serve("GET /console/api/pages/{page...}", func(r *http.Request) (any, bool) {
		page, there := book.Page(r.PathValue("page"), language(r))
		return page, there
	})
	serve("GET /console/api/search", func(r *http.Request) (any, bool) {
		return book.Search(r.URL.Query().Get("q"), language(r)), true
	})
	mux.HandleFunc("GET /console/api/picture/{name...}", c.access.wants(func(w http.ResponseWriter, r *http.Request) {
		picture, there := book.Picture(r.PathValue("name"))
		if !there {
			fail(w, errNotFound)
			return
		}
		// A picture has a style element for its colours; nothing else in it may run.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		w.Header().Set("Content-Type", types[".svg"])
		_, _ = w.Write(picture)
	}))
}
