package report

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
)

// HistoryLine is one line of a history file: a request as its client saw it, and the run that it belongs to. It can
// also be decoded as an [judge.Op].
type HistoryLine struct {
	Mode       string `json:"mode"`
	Plan       string `json:"plan,omitempty"`
	Repetition int    `json:"repetition"`
	judge.Op
}

// History is a file that receives the history of every run; a nil one receives nothing.
type History struct {
	file *os.File
	w    *bufio.Writer
}

// CreateHistory creates the file at path; nil for "".
func CreateHistory(path string) (*History, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nothing is to be kept, and that is no error
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &History{file: f, w: bufio.NewWriter(f)}, nil
}

// Add writes the history of a run, as [WriteHistory] does. It is the callback Each of [compare.Modes].
func (h *History) Add(r loadtest.Result) error {
	if h == nil {
		return nil
	}
	return WriteHistory(h.w, r)
}

// Close writes what is buffered, and closes the file.
func (h *History) Close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.w.Flush(), h.file.Close())
}

// ReservationLine is one line of the history of a run that reserves.
type ReservationLine struct {
	Mode       string `json:"mode"`
	Plan       string `json:"plan,omitempty"`
	Repetition int    `json:"repetition"`
	ProductID  int64  `json:"product_id"`
	judge.ReservationOp
}

// WriteHistory writes a run's history as JSON lines.
func WriteHistory(w io.Writer, r loadtest.Result) error {
	e := json.NewEncoder(w)
	for _, op := range r.History {
		if err := e.Encode(HistoryLine{Mode: r.Mode, Plan: r.Plan.Name, Repetition: r.Repetition, Op: op}); err != nil {
			return err
		}
	}
	if r.Holds == nil {
		return nil
	}
	for _, product := range slices.Sorted(maps.Keys(r.Holds.History)) {
		for _, op := range r.Holds.History[product] {
			if err := e.Encode(ReservationLine{r.Mode, r.Plan.Name, r.Repetition, product, op}); err != nil {
				return err
			}
		}
	}
	return nil
}

// csvHead is the header of the CSV. It is stable: new columns are added at the end. Latencies are in milliseconds.
const csvHead = "mode,store,plan,engine,repetition,claim,verdict,found,finding,sent,retried,dropped,elapsed_s," +
	"stock_before,stock_after,sold,orders,oversold,lost_updates,leaked," +
	"kind,count,per_second,min_ms,mean_ms,p50_ms,p90_ms,p95_ms,p99_ms,p999_ms,max_ms,service_p50_ms,service_p99_ms"

// WriteCSV writes a header, and a line for each kind of answer of each run. If a kind did not occur, its latencies are
// empty, not 0.
func WriteCSV(w io.Writer, c compare.Comparison) error {
	out := csv.NewWriter(w)
	if err := out.Write(strings.Split(csvHead, ",")); err != nil {
		return err
	}
	for _, r := range c.Results {
		for _, k := range client.Kinds {
			if err := out.Write(csvLine(r, k)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// csvLine returns the fields of one kind of answer of a run, in the order of csvHead.
func csvLine(r loadtest.Result, k client.Kind) []string {
	s := compare.SummarizeRuns([]loadtest.Result{r})
	line := []string{
		r.Mode, string(r.Store), r.Plan.Name, r.Engine, strconv.Itoa(r.Repetition),
		string(r.Claim), string(s.Verdict), s.Found, string(r.Finding),
		strconv.Itoa(r.Sent), strconv.Itoa(r.Retried), strconv.Itoa(r.Dropped),
		strconv.FormatFloat(r.Elapsed.Seconds(), 'f', 3, 64),
	}
	facts := []int64{s.Before, s.After, s.Sold, int64(s.Orders), s.Oversold, s.LostUpdates, s.Leaked}
	for _, n := range facts {
		if !s.Known() {
			line = append(line, "")
			continue
		}
		line = append(line, strconv.FormatInt(n, 10))
	}
	l, service := r.Latency[k], r.Service[k]
	line = append(line, string(k), strconv.FormatInt(l.Count, 10), strconv.FormatFloat(kindRate(r, k), 'f', 1, 64))
	for _, d := range []time.Duration{l.Min, l.Mean, l.P50, l.P90, l.P95, l.P99, l.P999, l.Max} {
		line = append(line, csvMillis(d, l.Count))
	}
	return append(line, csvMillis(service.P50, service.Count), csvMillis(service.P99, service.Count))
}

func csvMillis(d time.Duration, count int64) string {
	if count == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
}

// WriteBench writes a line per run in the format of Go benchmarks, so that benchstat can compare modes (`benchstat -col
// /mode`) or two versions of a mode. The iteration count is the number of accepted requests, and ns/op is their mean
// response time. broken is 1 if the judge found the run broken, so its mean is the share of broken runs. A run that
// accepted nothing has no line. Where the CPU time of the service is known, a line tells it for an answer, and the
// speed of the answers, see [compare.Cost]. Comments, which benchstat ignores, give the number of each mode's runs by
// verdict.
func WriteBench(w io.Writer, c compare.Comparison) error {
	e := c.Environment
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: lastitem/loadtest\n", e.OS, e.Arch)
	if e.CPU != "" {
		fmt.Fprintf(&b, "cpu: %s\n", e.CPU)
	}
	fmt.Fprintf(&b, "engine: %s\nreplicas: %d\n", e.Engine, e.Replicas)
	if e.RTT > 0 {
		fmt.Fprintf(&b, "rtt: %v\n", e.RTT)
	}
	for _, r := range c.Results {
		l := r.Latency[client.Accepted]
		if l.Count == 0 {
			continue
		}
		name := "mode=" + r.Mode
		if len(c.Plans) > 1 && r.Plan.Name != "" {
			name += "/plan=" + r.Plan.Name
		}
		s := compare.SummarizeRuns([]loadtest.Result{r})
		fmt.Fprintf(&b, "BenchmarkDeduct/%s %d %d ns/op %s accepted/s %d p99-us %d oversold %d broken%s\n", name, l.Count,
			l.Mean.Nanoseconds(), strconv.FormatFloat(r.AcceptedPerSecond, 'f', -1, 64), l.P99.Microseconds(),
			s.Oversold, min(1, s.Verdicts[judge.Broken]), benchCost(compare.CostOf(r)))
	}
	for _, s := range c.Summaries {
		if s.Verdict != "" {
			fmt.Fprintf(&b, "# %s: claims %s: %s: %s\n", rowName(s, c), claimText("en", s.Claim),
				cmp.Or(s.Finding, judge.Unclaimed), verdictCounts(s))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// benchCost returns the cost of an answer in the format of Go benchmarks; "" where it is not known.
func benchCost(c compare.Cost) string {
	if c.CPU == nil {
		return ""
	}
	said := fmt.Sprintf(" %.1f answers/s %d answers-p99-us", c.PerSecond, c.P99.Microseconds())
	for _, part := range slices.Sorted(maps.Keys(c.CPU)) {
		said += fmt.Sprintf(" %d %s-cpu-ns", c.CPU[part].Nanoseconds(), part)
	}
	return said
}

// verdictCounts returns the number of runs by verdict, worst first: "BROKEN O 27/30, EXACT 3/30".
func verdictCounts(s compare.Summary) string {
	var parts []string
	for _, v := range []judge.Verdict{judge.Broken, judge.Inconclusive, judge.Vacuous, judge.Exact} {
		n := s.Verdicts[v]
		if n == 0 {
			continue
		}
		found := ""
		if v == judge.Broken {
			found = s.Found
		}
		parts = append(parts, fmt.Sprintf("%s %d/%d", verdictText("en", v, found), n, s.Runs))
	}
	return strings.Join(parts, ", ")
}

// WriteMarkdown writes the comparison as a Markdown table with a row per mode, for a pull request or a page. It leaves
// out the notes that [WriteTable] writes below the rows, and writes the lines about the claims below the table.
func WriteMarkdown(w io.Writer, c compare.Comparison, lang string) error {
	var b strings.Builder
	wholeGrid(c, lang).markdown(&b)
	b.WriteString("\n")
	var findings strings.Builder
	writeFindings(&findings, c, Style{Lang: lang, Width: math.MaxInt})
	for line := range strings.Lines(findings.String()) {
		b.WriteString("* " + markdownText(strings.TrimSpace(line)) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
