package rig

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// onlyPlaceholder matches a value that the lab fills in, and that tells nothing.
var onlyPlaceholder = regexp.MustCompile(`^\s*\{\{\w+\}\}\s*$`)

// MarshalJSON leaves the values of Env and Headers out, which may be passwords: a story holds their names. Placeholders stay.
func (f Foreign) MarshalJSON() ([]byte, error) {
	names := func(all []string, sep string) []string {
		all = slices.Clone(all)
		for i, pair := range all {
			if name, value, _ := strings.Cut(pair, sep); !onlyPlaceholder.MatchString(value) {
				all[i] = name
			}
		}
		return all
	}
	type fields Foreign // without this method
	f.Env, f.Headers = names(f.Env, "="), names(f.Headers, ":")
	return json.Marshal(fields(f))
}

// Complete gives the variables and headers of a story their values: those of env (NAME=VALUE) and headers ("Name: value"), else those of lookup,
// where the header X-Api-Key is X_API_KEY. It returns the options that are missing.
func (f *Foreign) Complete(env, headers []string, lookup func(string) (string, bool)) (missing []string) {
	for _, x := range []struct {
		all, given  []string
		sep, option string
	}{{f.Env, env, "=", "--env "}, {f.Headers, headers, ":", "--header "}} {
		for i, name := range x.all {
			if strings.Contains(name, x.sep) {
				continue
			}
			variable := name
			if x.sep == ":" {
				variable = strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(name), "-", "_"))
			}
			at := slices.IndexFunc(x.given, func(pair string) bool {
				of, _, found := strings.Cut(pair, x.sep)
				return found && strings.EqualFold(strings.TrimSpace(of), strings.TrimSpace(name))
			})
			if value, ok := lookup(variable); at >= 0 {
				x.all[i] = x.given[at]
			} else if ok {
				x.all[i] = name + x.sep + value
			} else {
				missing = append(missing, x.option+name+" ($"+variable+")")
			}
		}
	}
	return missing
}
