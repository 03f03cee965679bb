package figure

import "slices"

// Measures are the numbers of one window, or their medians, by name.
type Measures map[string]Number

// Of returns a measure, None if it is missing.
func (m Measures) Of(name string) Number {
	if v, ok := m[name]; ok {
		return v
	}
	return None
}

// Rounds are the windows of one contender, in order.
type Rounds []Measures

// All returns the values of a measure, None for a round without it.
func (r Rounds) All(name string) []Number {
	values := make([]Number, len(r))
	for i, m := range r {
		values[i] = m.Of(name)
	}
	return values
}

// Median returns the median of every measure.
func (r Rounds) Median() Measures {
	medians := Measures{}
	for _, m := range r {
		for name := range m {
			medians[name] = Median(r.All(name))
		}
	}
	return medians
}

// Spread returns (max - min) / median of a measure; None for fewer than two values.
func (r Rounds) Spread(name string) Number {
	values := slices.DeleteFunc(r.All(name), func(n Number) bool { return !n.Known() })
	if len(values) < 2 {
		return None
	}
	return Ratio(slices.Max(values)-slices.Min(values), Median(values))
}

// Against returns the median of the ratios of a measure between two contenders, round by round, because the machine's
// speed changes between rounds.
func (r Rounds) Against(other Rounds, name string) Number {
	var ratios []Number
	for i := range min(len(r), len(other)) {
		ratios = append(ratios, Ratio(r[i].Of(name), other[i].Of(name)))
	}
	return Median(ratios)
}
