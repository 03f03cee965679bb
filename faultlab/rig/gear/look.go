package gear

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Key is a key in the lane's Redis.
type Key struct {
	Name string `json:"key"` // without the lane's prefix: "stock:{1001}"
	Kind string `json:"kind"`
	// TTL is its remaining life in milliseconds; -1 = it has none.
	TTL int64 `json:"ttl"`
	// Values are the value of a string, the elements of a list or set, field after field of a hash with their values, or
	// the ids of a stream's entries, each with its last value.
	Values []string `json:"values"`
}

// keysOf returns every key with a prefix, with its type, TTL and first values, as JSON. ARGV: pattern.
const keysOf = `local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  local values = {''}
  if kind == 'string' then values = {redis.call('GET', key)}
  elseif kind == 'list' then values = redis.call('LRANGE', key, 0, 31)
  elseif kind == 'hash' then values = redis.call('HGETALL', key)
  elseif kind == 'set' then values = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then values = redis.call('ZRANGE', key, 0, 31, 'WITHSCORES')
  elseif kind == 'stream' then
    values = {}
    for _, e in ipairs(redis.call('XRANGE', key, '-', '+', 'COUNT', 8)) do
      values[#values + 1], values[#values + 2] = e[1], e[2][#e[2]]
    end
    if #values == 0 then values = {''} end
  end
  all[#all + 1] = {key = key, kind = kind, ttl = redis.call('PTTL', key), values = values}
end
if #all == 0 then return '[]' end
return cjson.encode(all)`

// Keys returns the keys of the lane in its Redis, by name. It bypasses the proxies.
func (s *Set) Keys(ctx context.Context) ([]Key, error) {
	text, err := s.redisNow(ctx, "EVAL", keysOf, "0", s.space()+"*")
	if err != nil {
		return nil, err
	}
	var all []Key
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("faultlab: the keys of the lane: %w", err)
	}
	for i := range all {
		all[i].Name = strings.TrimPrefix(all[i].Name, s.space())
	}
	slices.SortFunc(all, func(a, b Key) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// EndKeys deletes keys of the lane, named as [Set.Keys] names them, as if their TTL had run out. No clock moves.
func (s *Set) EndKeys(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := s.redisNow(ctx, "PEXPIRE", s.space()+name, "0"); err != nil {
			return err
		}
	}
	return nil
}

// Fresh makes a lane that was reset look as if nothing had ever happened on it: it deletes what earlier schedules have
// left under the names of locks, such as fencing counters, and sets the counters of the product's row to zero. No
// request may be in flight.
func (s *Set) Fresh(ctx context.Context) error {
	keys, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	var left []string
	for _, k := range keys {
		if strings.HasPrefix(k.Name, LockPrefix) {
			left = append(left, k.Name)
		}
	}
	if err := s.EndKeys(ctx, left...); err != nil {
		return err
	}
	return s.SQL.exec(ctx, "UPDATE product_stock SET lease_seq = 0, version = 0, fence = 0 WHERE id = ?", s.Product())
}

// Table is the lane's rows of a table, as a new transaction sees them.
type Table struct {
	Name    string     `json:"name"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// looks has the columns that matter to a deduction, by table, and the condition for the lane's rows.
var looks = []struct{ table, columns, where string }{
	{"product_stock", "id, stock, lease_seq, version, fence", "id = %d"},
	{"orders", "id, remaining, replica, idempotency_key, fence", "product_id = %d ORDER BY created_us"},
	{"idempotent_log", "idempotency_key, status, body", "product_id = %d ORDER BY created_us"},
	{"reservation", "id, state", "id IN (SELECT i.reservation_id FROM reservation_item i JOIN product_stock p " +
		"ON p.id = i.product_id AND p.run = i.run WHERE p.id = %d) ORDER BY created_us"},
	{"received", "id, outcome, deliveries", "product_id = %d ORDER BY at_us"},
}

// Tables returns the committed rows of the lane's product. It bypasses the proxies.
func (s *Set) Tables(ctx context.Context) ([]Table, error) {
	db, err := s.SQL.DB()
	if err != nil {
		return nil, err
	}
	all := make([]Table, 0, len(looks))
	for _, look := range looks {
		t := Table{Name: look.table, Columns: strings.Split(look.columns, ", "), Rows: [][]string{}}
		query := fmt.Sprintf("SELECT "+look.columns+" FROM "+look.table+" WHERE "+look.where, s.Product())
		if err := t.read(ctx, db, query); err != nil {
			return nil, fmt.Errorf("faultlab: %w", err)
		}
		all = append(all, t)
	}
	return all, nil
}

func (t *Table) read(ctx context.Context, db *sql.DB, query string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		cells := make([]sql.NullString, len(t.Columns))
		into := make([]any, len(cells))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = c.String
			if !c.Valid {
				row[i] = "NULL"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return rows.Err()
}
