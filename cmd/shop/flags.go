package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lastitem/say/text"
)

// flags are flags of a command.
type flags []struct {
	name  string // "quiet|q" = -q is short for it
	into  any    // a pointer, whose type is the flag's
	usual any    // the value without the flag; nil = the zero value
	help  text.Text
}

// Lists of strings as values of flags.
type (
	list     []string // comma-separated
	repeated []string // one value each time that the flag is given
)

// add declares the flags on set, with their help in a language.
func (all flags) add(set *pflag.FlagSet, lang string) {
	for _, f := range all {
		name, short, _ := strings.Cut(f.name, "|")
		help := f.help.In(lang)
		switch into := f.into.(type) {
		case *string:
			set.StringVarP(into, name, short, usually[string](f.usual), help)
		case *bool:
			set.BoolVarP(into, name, short, usually[bool](f.usual), help)
		case *int:
			set.IntVarP(into, name, short, usually[int](f.usual), help)
		case *int64:
			set.Int64VarP(into, name, short, usually[int64](f.usual), help)
		case *uint64:
			set.Uint64VarP(into, name, short, usually[uint64](f.usual), help)
		case *float64:
			set.Float64VarP(into, name, short, usually[float64](f.usual), help)
		case *time.Duration:
			set.DurationVarP(into, name, short, usually[time.Duration](f.usual), help)
		case *list:
			set.StringSliceVarP((*[]string)(into), name, short, usually[[]string](f.usual), help)
		case *repeated:
			set.StringArrayVarP((*[]string)(into), name, short, nil, help+text.Of("; may be repeated").In(lang))
		case *[]string:
			set.StringArrayVarP(into, name, short, nil, help)
		default:
			panic(fmt.Sprintf("flag --%s: no flag has the type %T", name, into))
		}
	}
}

// under adds the flags to set under a heading of the help.
func (all flags) under(set *pflag.FlagSet, lang string, title text.Text) {
	section(set, title.In(lang), func() { all.add(set, lang) })
}

// usually returns the value that a flag has without being given.
func usually[T any](value any) T {
	v, _ := value.(T)
	return v
}
