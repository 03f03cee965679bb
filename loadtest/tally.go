package loadtest

import (
	"cmp"
	"slices"
	"time"

	"lastitem/internal/audit"
)

// fill writes what was recorded into the result. No worker may be running any more.
func (r *recorder) fill(res *Result) {
	res.Codes, res.Served = map[string]int{}, map[string]int{}
	// Times are nanoseconds since the start; first is -1 until there is one, since a call may come at 0.
	first, last, accepted, acceptedAt := int64(-1), int64(0), int64(0), int64(0)
	for i := range r.parts {
		p := &r.parts[i]
		r.series.flush(&p.second) // the last second of each shard is still its own
		res.Sent += p.sent
		res.Retried += p.retried
		for code, n := range p.codes {
			res.Codes[code] += n
		}
		for replica, n := range p.served {
			res.Served[replica] += n
		}
		if p.firstIsRecorded && (first < 0 || p.first < first) {
			first = p.first
		}
		last = max(last, p.last)
		accepted += p.kinds[kindIndex(Accepted)]
		acceptedAt = max(acceptedAt, p.lastAccepted)
	}
	res.Series = r.series.list()
	r.fillLatencies(res)
	res.History = r.ops()
	if first < 0 {
		return
	}
	res.Elapsed = time.Duration(last - first)
	if accepted > 0 {
		res.ToLastAccepted = time.Duration(acceptedAt - first)
	}
	res.AcceptedPerSecond = perSecond(accepted, res.ToLastAccepted)
	res.RequestsPerSecond = perSecond(int64(res.Sent), res.Elapsed)
}

// fillLatencies merges the histograms of all workers and only then takes their percentiles: an average of percentiles is a
// percentile of nothing. Kinds that did not occur are left out.
func (r *recorder) fillLatencies(res *Result) {
	res.Latency, res.Service = map[Kind]Latency{}, map[Kind]Latency{}
	for k, kind := range Kinds {
		response, service := newHistogram(runDigits), newHistogram(runDigits)
		for i := range r.parts {
			response.merge(r.parts[i].response[k])
			service.merge(r.parts[i].service[k])
		}
		if response.hdr.TotalCount() > 0 {
			res.Latency[kind], res.Service[kind] = response.latency(), service.latency()
		}
	}
	lag := newHistogram(runDigits)
	for i := range r.parts {
		lag.merge(r.parts[i].lag)
	}
	res.Lag = lag.latency()
}

// ops returns the history in the order of the calls; nil where none was kept.
func (r *recorder) ops() []audit.Op {
	if !r.history {
		return nil
	}
	all := []audit.Op{} // not nil: a history in which nothing happened is not a missing one
	for i := range r.parts {
		all = append(all, r.parts[i].history...)
	}
	slices.SortFunc(all, func(a, b audit.Op) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Client, b.Client))
	})
	return all
}

// perSecond is n over d; 0 where d is.
func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
