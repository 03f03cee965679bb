package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lastitem/say/text"
)

// Flags are flags of a command.
type Flags []struct {
	Name  string // "quiet|q" = -q is short for it
	Into  any    // a pointer, whose type is the flag's
	Usual any    // the value without the flag; nil = the zero value
	Help  text.Text
}

// A List is the value of a flag that takes several, comma-separated.
type List []string

// Repeated is the value of a flag that takes one each time that it is given.
type Repeated []string

// Add declares the flags on set, with their help in a language.
func (all Flags) Add(set *pflag.FlagSet, lang string) {
	for _, f := range all {
		name, short, _ := strings.Cut(f.Name, "|")
		help := f.Help.In(lang)
		switch into := f.Into.(type) {
		case *string:
			set.StringVarP(into, name, short, usually[string](f.Usual), help)
		case *bool:
			set.BoolVarP(into, name, short, usually[bool](f.Usual), help)
		case *int:
			set.IntVarP(into, name, short, usually[int](f.Usual), help)
		case *int64:
			set.Int64VarP(into, name, short, usually[int64](f.Usual), help)
		case *uint64:
			set.Uint64VarP(into, name, short, usually[uint64](f.Usual), help)
		case *float64:
			set.Float64VarP(into, name, short, usually[float64](f.Usual), help)
		case *time.Duration:
			set.DurationVarP(into, name, short, usually[time.Duration](f.Usual), help)
		case *List:
			set.StringSliceVarP((*[]string)(into), name, short, usually[[]string](f.Usual), help)
		case *Repeated:
			set.StringArrayVarP((*[]string)(into), name, short, nil, help+text.Of("; may be repeated").In(lang))
		case *[]string:
			set.StringArrayVarP(into, name, short, nil, help)
		default:
			panic(fmt.Sprintf("flag --%s: no flag has the type %T", name, into))
		}
	}
}

// Under adds the flags to set under a heading of the help.
func (all Flags) Under(set *pflag.FlagSet, lang string, title text.Text) {
	Section(set, title.In(lang), func() { all.Add(set, lang) })
}

// Once makes flags refuse to be given twice: the first value would be dropped in silence.
func Once(set *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := set.Lookup(name)
		f.Value = &once{Value: f.Value}
	}
}

var errTwice = text.Of("it is given twice").Errorf()

type once struct {
	pflag.Value
	given bool
}

// Set makes once a [pflag.Value].
func (o *once) Set(said string) error {
	if o.given {
		return errTwice
	}
	o.given = true
	return o.Value.Set(said)
}

// usually returns the value that a flag has without being given.
func usually[T any](value any) T {
	v, _ := value.(T)
	return v
}
