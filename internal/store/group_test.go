package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/store"
	"lastitem/internal/testenv"
)

// The sessions read what others commit meanwhile; the sessions of the other pool keep the server's defaults.
func TestGroupTxSessions(t *testing.T) {
	t.Parallel()
	set := openSet(t, testenv.MySQL(t), 1)
	s := set.SQL
	settings := func() map[string]string {
		t.Helper()
		rows, err := set.DB.WithContext(t.Context()).
			Raw("SHOW SESSION VARIABLES WHERE variable_name IN ('autocommit', 'tx_isolation', 'transaction_isolation')").Rows()
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		all := map[string]string{}
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				t.Fatal(err)
			}
			all[name] = value
		}
		if err := rows.Err(); err != nil || all["autocommit"] != "ON" || len(all) < 2 {
			t.Errorf("settings = %v, %v, want autocommit and the isolation", all, err)
		}
		return all
	}
	before := settings()
	resetSQL(t, s, 1, 5, 0)
	err := s.GroupTx(t.Context(), func(tx *store.Tx) error {
		for want := int64(5); want > 3; want-- {
			if row, err := tx.Read(1); err != nil || row.Stock != want {
				t.Errorf("Read() = %+v, %v, want %d", row, err, want)
			}
			do(t, s, take(t, 1, nil))
		}
		return nil
	})
	if err != nil {
		t.Errorf("GroupTx() = %v, want nil", err)
	}
	if diff := cmp.Diff(before, settings()); diff != "" {
		t.Errorf("the other pool's session (-before +after):\n%s", diff)
	}
	var pools []string
	for _, p := range set.Pools() {
		pools = append(pools, p.Name)
		if p.Total != 1 {
			t.Errorf("pool %s has %d connections, want 1", p.Name, p.Total)
		}
	}
	if diff := cmp.Diff([]string{"sql", "sql_groups"}, pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}
