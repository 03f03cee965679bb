package backend

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"lastitem/say/text"
)

// sessionNeeds is what the statements of the shop need of a session of MySQL, whatever the defaults of its server are.
// It is set once per connection, after the parameters of the address: a server that refuses it is not used, and /readyz
// says why.
var sessionNeeds = [][2]string{
	{"autocommit", "1"},       // a read outside a transaction begins none, whose snapshot would stay
	{"completion_type", "0"},  // COMMIT begins no other transaction
	{"sql_safe_updates", "0"}, // a reset deletes by the indices that it has
	{"sql_mode", "'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"}, // a value that does not fit is an error
	{"sql_select_limit", "18446744073709551615"},
	{"unique_checks", "1"}, // the key's row decides which request is the first
}

// setSession makes a session what the shop needs. Its time zone is the address's, else UTC: times that the server makes
// are only compared with each other. The isolation is for reads outside a transaction; a transaction sets its own.
func setSession(ctx context.Context, c driver.ExecerContext, zone string) error {
	set := "SET SESSION time_zone=" + zone + ", "
	for _, need := range sessionNeeds {
		set += "SESSION " + need[0] + "=" + need[1] + ", "
	}
	const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	for _, statement := range []string{strings.TrimSuffix(set, ", "), isolation} {
		if _, err := c.ExecContext(ctx, statement, nil); err != nil {
			return fmt.Errorf("the session cannot be made what the shop needs: %w", err)
		}
	}
	return nil
}

// checkSession refuses parameters of an address that the shop would overwrite with something else.
func checkSession(params map[string]string) error {
	for _, need := range sessionNeeds {
		for name, value := range params {
			if strings.EqualFold(need[0], name) && value != need[1] {
				return text.Of("backend: SQL address: %s=%s is not possible: the shop needs %s").Errorf(name, value, need[1])
			}
		}
	}
	return nil
}
