package figure

import "slices"

// Measures are the numbers of one window, or their medians, by name.
type Measures map[string]Number

// Of is none where a measure is not there.
func (m Measures) Of(name string) Number {
	if v, ok := m[name]; ok {
		return v
	}
	return None
}

// Rounds are the windows of one contender, in order.
type Rounds []Measures

// All are the values of a measure, none where a round lacks it.
func (r Rounds) All(name string) []Number {
	values := make([]Number, len(r))
	for i, m := range r {
		values[i] = m.Of(name)
	}
	return values
}

// Median of every measure that the rounds have.
func (r Rounds) Median() Measures {
	medians := Measures{}
	for _, m := range r {
		for name := range m {
			medians[name] = Median(r.All(name))
		}
	}
	return medians
}

// Spread is (max - min) / median of a measure; none for less than two values.
func (r Rounds) Spread(name string) Number {
	values := slices.DeleteFunc(r.All(name), func(n Number) bool { return !n.Known() })
	if len(values) < 2 {
		return None
	}
	return Ratio(slices.Max(values)-slices.Min(values), Median(values))
}

// Against is the median of the ratios of a measure between two contenders: round by round, since the machine's pace changes
// between rounds.
func (r Rounds) Against(other Rounds, name string) Number {
	var ratios []Number
	for i := range min(len(r), len(other)) {
		ratios = append(ratios, Ratio(r[i].Of(name), other[i].Of(name)))
	}
	return Median(ratios)
}
