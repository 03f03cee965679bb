package input

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"

	"lastitem/internal/shop"
)

// cursor is the content of a next_cursor (JSON in base64url): a reader's position in the rows of a product. It is
// opaque to clients. It holds no secret, and a forged cursor only gives access to rows that every reader may see.
type cursor struct {
	Product int64       `json:"p"`
	At      shop.Cursor `json:"at"`
}

// EncodeCursor encodes a cursor; "" at the end of the rows.
func EncodeCursor(product int64, at shop.Cursor) (string, error) {
	if at == nil {
		return "", nil
	}
	text, err := json.Marshal(cursor{product, at})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// DecodeCursor decodes a cursor of a product; nil if there is none.
func DecodeCursor(product int64, text string) (shop.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	c, err := openCursor(text)
	switch {
	case err != nil:
		return nil, Invalid("cursor", "was not issued by this service")
	case c.Product != product:
		return nil, Invalid("cursor", "belongs to another product")
	}
	return c.At, nil
}

func openCursor(text string) (c cursor, err error) {
	if len(text) > MaxCursor {
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
