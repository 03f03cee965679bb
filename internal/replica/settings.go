package replica

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// SettingsError is the error of settings that cannot be read, or cannot be right: nothing was started.
type SettingsError struct{ Err error }

// Misuse returns what is wrong with the settings.
func (e *SettingsError) Misuse() error { return e.Err }

func (e *SettingsError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SettingsError) Unwrap() error { return e.Err }

// Read reads the settings: a flag comes before the environment variable, and the variable before the default. An empty
// value is the default. given are the values of the flags, by the name of the variable that each replaces. If values
// cannot be read, the error is a [*SettingsError] that names each of them as it was given, and says what it should be.
func Read(given map[string]string) (Config, error) {
	c := Config{given: given}
	environment := env.ToMap(os.Environ())
	maps.Copy(environment, given)
	err := env.ParseWithOptions(&c, env.Options{Environment: environment})
	if c.HealthEvery == 0 {
		c.HealthEvery = noProbes
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		return c, err
	}
	errs := make([]error, len(all.Errors))
	for i, err := range all.Errors {
		errs[i] = c.unreadable(err, environment)
	}
	return c, &SettingsError{errors.Join(errs...)}
}

// Defaults returns the settings that no flag and no variable gives.
func Defaults() (Config, error) {
	var c Config
	err := env.ParseWithOptions(&c, env.Options{Environment: map[string]string{}})
	return c, err
}

// Setting describes a field of [Config] to a user.
type Setting struct {
	Name    string    `json:"name"`    // of the environment variable
	Default string    `json:"default"` // "" = none
	Help    text.Text `json:"help"`
	Group   string    `json:"-"` // its group in lists
	// it can hold a password or a token, and can be read from a file: see [ReadFiles]
	Secret bool `json:"secret,omitempty"`
	// of its value, as the placeholder in the help: duration, int, bool, level, names, JSON, format or string
	Kind string `json:"-"`
}

// Settings lists the settings of a replica in the order of [Config], a group after the other.
func Settings() []Setting {
	var all []Setting
	group := ""
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		name := f.Tag.Get("env")
		if name == "" {
			continue
		}
		group = cmp.Or(f.Tag.Get("group"), group)
		all = append(all, Setting{name, f.Tag.Get("envDefault"), text.Of(f.Tag.Get("help")), group,
			f.Tag.Get("secret") == "true", kind(f.Type)})
	}
	return all
}

// InFile is appended to the name of a variable that can hold a secret, for one that names a file with the value.
const InFile = "_FILE"

// ReadFiles sets the variables of this process whose values stand in files, as SHOP_REDIS where SHOP_REDIS_FILE names
// one, without the line breaks at its end. The error names each file that cannot be read, and each value that is given
// in both ways.
func ReadFiles() error {
	var errs []error
	for _, s := range Settings() {
		file := os.Getenv(s.Name + InFile)
		if !s.Secret || file == "" {
			continue
		}
		said, err := os.ReadFile(file)
		value := strings.TrimRight(string(said), "\r\n")
		switch {
		case os.Getenv(s.Name) != "":
			err = text.Of("it and %s are both set; set one of them").Errorf(s.Name)
		case err == nil && value == "":
			err = text.Of("%s is empty").Errorf(file)
		case err == nil:
			// replicas of a stack that inherit both would refuse them
			err = errors.Join(os.Setenv(s.Name, value), os.Unsetenv(s.Name+InFile))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name+InFile, err))
		}
	}
	return errors.Join(errs...)
}

// Flag returns the flag of a setting, without dashes: of SHOP_LOCK_TTL it is lock-ttl.
func (s Setting) Flag() string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.Name, "SHOP_")), "_", "-")
}

// name is how the user gave a setting: by its flag, else by its variable, which is also the name of one that was not
// given.
func (c Config) name(variable string) string {
	if _, ok := c.given[variable]; ok {
		return "--" + Setting{Name: variable}.Flag()
	}
	return variable
}

// kinds are the values of [Setting.Kind] that are not Go's names of types.
var kinds = map[reflect.Type]string{
	reflect.TypeFor[time.Duration](): "duration", reflect.TypeFor[slog.Level](): "level",
	reflect.TypeFor[hostNames](): "names", reflect.TypeFor[backendNames](): "backends", reflect.TypeFor[reasons](): "JSON",
	reflect.TypeFor[logFormat](): "format",
}

func kind(t reflect.Type) string { return cmp.Or(kinds[t], t.String()) }

// unreadable names a setting that cannot be parsed, its value, and the form it should have. The error of package env
// names only the field.
func (c Config) unreadable(err error, environment map[string]string) error {
	var e env.ParseError
	if !errors.As(err, &e) {
		return err
	}
	field, _ := reflect.TypeFor[Config]().FieldByName(e.Name)
	name := field.Tag.Get("env")
	return text.Of("%s is %q, want %s").Errorf(c.name(name), redact.Address(environment[name]),
		wanted(kind(e.Type), e.Err))
}

// wanted describes a valid value of a [Setting.Kind], for an error about one that cannot be parsed; err is the error of
// parsing, which tells a number that is too large.
func wanted(kind string, err error) text.Text {
	if errors.Is(err, strconv.ErrRange) {
		return text.Of("a number that fits into 64 bits")
	}
	if said, ok := forms[kind]; ok {
		return said
	}
	return text.Of(`JSON, such as {"etcd":"start one"}`)
}

// forms are the valid values by kind, but for JSON.
var forms = map[string]text.Text{
	"duration": text.Of("a duration with its unit, such as 10s or 500ms"),
	"int":      text.Of("a whole number"),
	"bool":     text.Of("true or false"),
	"level":    text.Of("debug, info, warn or error"),
	"names":    text.Of("host names without a port, separated by commas, or *"),
	"format":   text.Of("text or json"),
}
