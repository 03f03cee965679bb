package handler

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"

	"lastitem/internal/stock"
)

// cursor is what a next_cursor holds, as JSON in base64url: where the reader of a product's rows has got to. Clients must not look
// inside. Nothing in it is a secret, and whoever makes one up reads rows that any reader can have.
type cursor struct {
	Product int64        `json:"p"`
	At      stock.Cursor `json:"at"`
}

// encodeCursor writes a cursor; "" at the end of the rows.
func encodeCursor(product int64, at stock.Cursor) (string, error) {
	if at == nil {
		return "", nil
	}
	text, err := json.Marshal(cursor{product, at})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// decodeCursor reads a cursor that was given for a product; nil for none.
func decodeCursor(product int64, text string) (stock.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	c, err := openCursor(text)
	switch {
	case err != nil:
		return nil, invalid("cursor", "is none that this service has given")
	case c.Product != product:
		return nil, invalid("cursor", "was given for another product")
	}
	return c.At, nil
}

func openCursor(text string) (c cursor, err error) {
	if len(text) > maxCursor {
		return c, errors.New("too long")
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, err
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return c, err
	}
	if in.More() || len(c.At) == 0 {
		return c, errors.New("no cursor")
	}
	return c, nil
}
