package main

// log has the records of one goroutine.
type log struct {
	from, to int64
	sections []section
	pairs    []int64
	cut      []int64
	done     int64
	errors   int
	first    error
}

// wait records a wait that the end of the window cut off.
func (l *log) wait(asked, to int64) {
	if asked < to {
		l.cut = append(l.cut, to-asked)
	}
}

func (l *log) section(s section) {
	if s.Counts = l.from <= s.Acquired && s.Acquired < l.to; s.Counts {
		l.done++
	}
	l.sections = append(l.sections, s)
}

func (l *log) pair(asked, ended int64) {
	if l.from <= asked && ended < l.to {
		l.done++
		if len(l.pairs) < cap(l.pairs) {
			l.pairs = append(l.pairs, ended-asked)
		}
	}
}

func (l *log) fail(err error) {
	if err == nil {
		return
	}
	l.errors++
	if l.first == nil {
		l.first = err
	}
}
