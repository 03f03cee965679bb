package replica

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

//go:generate go test -count=1 -run ^TestDashboard$ . -update

var update = flag.Bool("update", false, "write the dashboard for Grafana anew")

const dashboardFile = "../../deploy/grafana/dashboards/lastitem.json"

// measured is a replica whose metrics are all defined, after sales that give each histogram a sample. Kafka and the
// collector of traces are not there.
func measured(t *testing.T) *Replica {
	t.Helper()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16, Events: true,
		Kafka: "127.0.0.1:1", OTLP: "http://127.0.0.1:1"})
	waitReady(t, r)
	send(t, r, http.MethodPut, "/products/101/stock", `{"stock":10}`, http.StatusOK)
	for i := range 10 {
		mode := []string{"handoff", "lua-lock"}[i%2]
		sendKeyed(t, r, http.MethodPost, "/deduct_stock/"+mode, "", "", http.StatusOK)
	}
	return r
}

// family is a metric as its definition says it.
type family struct {
	name, help string
	kind       string   // counter, gauge, histogram
	labels     []string // those that vary
	sampled    bool     // it has a value
}

var defined = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", ` +
	`constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// families reads the definitions of the shop's metrics from a registry, by name. Definitions have no kind: a family
// without a value is a counter by its name, or else a gauge, since each histogram has one.
func families(t *testing.T, r *prometheus.Registry) (all []family) {
	t.Helper()
	kinds := map[string]string{}
	gathered, err := r.Gather()
	testkit.Must(t, err)
	for _, f := range gathered {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	definitions := make(chan *prometheus.Desc)
	go func() {
		r.Describe(definitions)
		close(definitions)
	}()
	for d := range definitions {
		m := defined.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("a definition of another form: %s", d)
			continue
		}
		name, err1 := strconv.Unquote(m[1])
		help, err2 := strconv.Unquote(m[2])
		testkit.Must(t, cmp.Or(err1, err2))
		usual := "gauge"
		if strings.HasSuffix(name, "_total") {
			usual = "counter"
		}
		f := family{name: name, help: help, kind: cmp.Or(kinds[name], usual), sampled: kinds[name] != ""}
		if m[3] != "" {
			f.labels = strings.Split(m[3], ",")
		}
		if strings.HasPrefix(name, "shop_") {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b family) bool { return a.name == b.name }) // one gauge of each store
}

// dashboardRows are the rows of the dashboard: the families whose names begin so.
var dashboardRows = []struct {
	title string
	of    []string
}{
	{"Requests", []string{"shop_http_", "shop_idempotent_", "shop_conflicts_", "shop_audits_"}},
	{"Locks", []string{"shop_lock_wait_", "shop_lock_hold_", "shop_optional_lock_"}},
	{"Reservations and tickets", []string{"shop_overdue_", "shop_ticket", "shop_stock_", "shop_kafka_"}},
	{"Stores", []string{"shop_backend_", "shop_pool_"}},
	{"Lock engine", []string{"shop_lock_engine_"}},
	{"Replicas", []string{"shop_build_", "shop_events_", "shop_spans_"}},
}

// The parts of Grafana's dashboards that this one uses, schema 39.
type (
	panel struct {
		ID          int            `json:"id"`
		Type        string         `json:"type"`
		Title       string         `json:"title"`
		Description string         `json:"description,omitempty"`
		GridPos     grid           `json:"gridPos"`
		Datasource  *datasource    `json:"datasource,omitempty"`
		Targets     []query        `json:"targets,omitempty"`
		FieldConfig map[string]any `json:"fieldConfig,omitempty"`
		Options     map[string]any `json:"options,omitempty"`
		Collapsed   *bool          `json:"collapsed,omitempty"` // of a row
		Panels      *[]panel       `json:"panels,omitempty"`    // of a row that is collapsed
		of          family
	}
	grid struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	query struct {
		RefID    string `json:"refId"`
		Expr     string `json:"expr"`
		Legend   string `json:"legendFormat,omitempty"`
		Format   string `json:"format,omitempty"`
		Exemplar bool   `json:"exemplar,omitempty"`
	}
)

// panels are those of a family: a counter's rate, a gauge's value, a histogram's quantiles and its buckets.
func (f family) panels() []panel {
	selects := []string{`instance=~"$instance"`}
	if slices.Contains(f.labels, "mode") {
		selects = append(selects, `mode=~"$mode"`)
	}
	in := "{" + strings.Join(selects, ",") + "}"
	legend := ""
	for _, l := range f.labels {
		legend += " {{" + l + "}}"
	}
	by := func(more ...string) string {
		if all := append(slices.Clone(f.labels), more...); len(all) > 0 {
			return "sum by (" + strings.Join(all, ", ") + ") "
		}
		return "sum "
	}
	rate := func(suffix string) string { return "(rate(" + f.name + suffix + in + "[$__rate_interval]))" }
	unit := "short"
	if strings.Contains(f.name, "_seconds") {
		unit = "s"
	}
	one := func(kind, suffix, unit string, queries ...query) panel {
		for i := range queries {
			queries[i].RefID = string(rune('A' + i))
		}
		return panel{
			Type: kind, Title: f.name + suffix, Description: f.help, Datasource: &datasource{"prometheus", "${datasource}"},
			FieldConfig: map[string]any{"defaults": map[string]any{"unit": unit}, "overrides": []any{}}, Targets: queries, of: f,
		}
	}
	switch f.kind {
	case "histogram":
		quantile := func(q, name string) query {
			return query{Expr: "histogram_quantile(" + q + ", " + by("le") + rate("_bucket") + ")", Legend: name + legend,
				Exemplar: true}
		}
		heat := one("heatmap", ", all", unit, query{Expr: "sum by (le) " + rate("_bucket"),
			Format: "heatmap", Legend: "{{le}}"})
		heat.Options = map[string]any{"calculate": false, "yAxis": map[string]any{"unit": unit}}
		return []panel{one("timeseries", ", p50 and p99", unit, quantile("0.5", "p50"), quantile("0.99", "p99")), heat}
	case "counter":
		if unit == "s" {
			unit = "percentunit" // seconds in a second
		} else {
			unit = "ops"
		}
		return []panel{one("timeseries", ", per second", unit, query{Expr: by() + rate(""),
			Legend: strings.TrimSpace(legend)})}
	}
	return []panel{one("timeseries", "", unit, query{Expr: f.name + in, Legend: "{{instance}}" + legend})}
}

// dashboard lays the panels out, three in a line.
func dashboard(t *testing.T, all []family) (panels []panel) {
	t.Helper()
	add := func(p panel, w, h, x, y int) {
		p.ID, p.GridPos = len(panels)+1, grid{h, w, x, y}
		panels = append(panels, p)
	}
	y, placed := 0, map[string]bool{}
	for _, row := range dashboardRows {
		add(panel{Type: "row", Title: row.title, Collapsed: new(bool), Panels: &[]panel{}}, 24, 1, 0, y)
		y++
		n := 0
		for _, f := range all {
			if placed[f.name] || !slices.ContainsFunc(row.of, func(p string) bool { return strings.HasPrefix(f.name, p) }) {
				continue
			}
			placed[f.name] = true
			for _, p := range f.panels() {
				add(p, 8, 8, n%3*8, y+n/3*8)
				n++
			}
		}
		y += (n + 2) / 3 * 8
	}
	for _, f := range all {
		if !placed[f.name] {
			t.Errorf("no row of the dashboard has %s", f.name)
		}
	}
	return panels
}

// variable is a choice at the head of the dashboard: the values of a label.
func variable(label, metric string) map[string]any {
	return map[string]any{
		"type": "query", "name": label, "datasource": datasource{"prometheus", "${datasource}"}, "refresh": 2, "multi": true,
		"includeAll": true, "allValue": ".*", "query": "label_values(" + metric + ", " + label + ")",
		"current": map[string]any{"text": "All", "value": "$__all"},
	}
}

// TestDashboard: the dashboard for Grafana shows each metric of a replica, as its definition says. -update writes it.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	testkit.Must(t, e.Encode(map[string]any{
		"uid": "lastitem", "title": "lastitem", "schemaVersion": 39, "editable": true, "refresh": "10s",
		"annotations": map[string]any{"list": []any{}}, "time": map[string]string{"from": "now-15m", "to": "now"},
		"panels": dashboard(t, families(t, measured(t).Registry)),
		"templating": map[string]any{"list": []any{
			map[string]any{"type": "datasource", "name": "datasource", "query": "prometheus"},
			variable("instance", "shop_build_info"), variable("mode", "shop_http_requests_total"),
		}},
	}))
	if *update {
		testkit.Must(t, os.WriteFile(dashboardFile, b.Bytes(), 0o644))
	}
	written, err := os.ReadFile(dashboardFile)
	testkit.Must(t, err)
	if !bytes.Equal(written, b.Bytes()) {
		t.Errorf("%s is not what the metrics say: run 'make generate'", dashboardFile)
	}
}

// TestDashboardAsksPrometheus: a Prometheus that scrapes a replica answers each query of the dashboard, and the
// metrics that have a value with one; and it has the traces of slow buckets.
func TestDashboardAsksPrometheus(t *testing.T) {
	t.Parallel()
	r := measured(t)
	all := families(t, r.Registry)
	base := prometheusOf(t, testkit.Serve(t, r).URL)
	ask := func(path string, v url.Values, into any) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path+"?"+v.Encode(), nil)
		testkit.Must(t, err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		return json.NewDecoder(res.Body).Decode(into)
	}
	filled := strings.NewReplacer("$instance", ".*", "$mode", ".*", "$__rate_interval", "10s")
	for _, p := range dashboard(t, all) {
		for _, q := range p.Targets {
			expr := filled.Replace(q.Expr)
			testkit.NoError(t, expr, func() error {
				var got struct {
					Status, Error string
					Data          struct{ Result []any }
				}
				if err := ask("/api/v1/query", url.Values{"query": {expr}}, &got); err != nil {
					return err
				}
				if got.Status != "success" || p.of.sampled && len(got.Data.Result) == 0 {
					return fmt.Errorf("%s: %s %s, %d series", p.Title, got.Status, got.Error, len(got.Data.Result))
				}
				return nil
			})
		}
	}
	testkit.NoError(t, "exemplars", func() error {
		var got struct {
			Data []struct {
				Exemplars []struct{ Labels map[string]string }
			}
		}
		err := ask("/api/v1/query_exemplars", url.Values{"query": {"shop_http_request_duration_seconds_bucket"},
			"start": {"0"}, "end": {"4102444800"}}, &got)
		if err == nil && (len(got.Data) == 0 || len(got.Data[0].Exemplars[0].Labels["trace_id"]) != 32) {
			err = fmt.Errorf("%+v, want trace_id", got)
		}
		return err
	})
}

// prometheusOf starts a private Prometheus that scrapes a replica, and returns its address.
func prometheusOf(t *testing.T, replica string) string {
	t.Helper()
	program, dir := testenv.Program(t, "prometheus", "prometheus"), t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	testkit.Must(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs: [{job_name: shop, authorization: {credentials: t0ken}, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(replica, "http://")), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := l.Addr().String()
	testkit.Must(t, l.Close())
	var log testkit.Log
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+dir,
		"--web.listen-address="+address, "--enable-feature=exemplar-storage", "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + address
}
