package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/say/text"
	"lastitem/target"
	"lastitem/target/shopfile"
)

// serviceFlags describe what is sent to a service that is not lastitem, what its answers mean, and how its stock is set
// and read: the same for 'shop lab --serve' and 'shop loadtest --request'.
type serviceFlags struct {
	f                     target.Foreign
	ok, refused, declined string
	setup                 []string
	path                  string         // of the file that describes it; "" = the flags do
	file                  *shopfile.File // see load; nil = there is none
}

// statusNames are other names of the flags for statuses.
var statusNames = map[string]string{"ok-status": "ok", "refused-status": "refused", "declined-status": "declined"}

// register declares the flags on set.
func (s *serviceFlags) register(set *pflag.FlagSet, lang string) {
	f := &s.f
	cli.Flags{
		{"service", &s.path, nil, text.Of("shop.yaml: the file that describes your service, also one whose purchase takes " +
			"several requests; flags replace its fields (docs/shop-yaml.md)")},
		{"request", &f.Request, nil, text.Of("what a client sends: METHOD PATH [BODY], with {{product}}, " +
			"{{quantity}} and {{key}}")},
		{"header", (*cli.Repeated)(&f.Headers), nil, text.Of("'Name: value' for every request to your service")},
		{"read-header", (*cli.Repeated)(&f.ReadHeaders), nil, text.Of("'Name: value' only for the requests that reset and " +
			"read: an administrator's token")},
		{"key-header", &f.KeyHeader, nil, text.Of("header for an idempotency key; the fault retry needs a key")},
	}.Add(set, lang)
	s.meanings(set, lang)
	cli.Flags{
		{"setup-sql", (*cli.Repeated)(&s.setup), nil, text.Of("SQL statement that creates the tables, or @FILE with " +
			"several; run once")},
		{"reset-sql", (*cli.Repeated)(&f.ResetSQL), nil, text.Of("SQL statement run before every schedule or run: sets the " +
			"stock of " +
			"{{product}} to {{stock}}, or deletes its orders")},
		{"reset-redis", (*cli.Repeated)(&f.ResetRedis), nil, text.Of("Redis command run for the same purpose; the lab " +
			"empties Redis first")},
		{"reset-url", (*cli.Repeated)(&f.ResetURL), nil, text.Of("request to your service for the same purpose: METHOD " +
			"PATH [BODY]")},
		{"reset-cmd", (*cli.Repeated)(&f.ResetCmd), nil, text.Of("command for the same purpose, run after the others")},
		{"reset-within", &f.ResetWithin, time.Minute, text.Of("how long all resets of a product may take together")},
		{"stock-sql", &f.Stock.SQL, nil, text.Of("query that returns the remaining stock of {{product}}")},
		{"stock-redis", &f.Stock.Redis, nil, text.Of("Redis command that returns the remaining stock")},
		{"stock-url", &f.Stock.URL, nil, text.Of("path of your service (in a load test also an URL) that returns the " +
			"remaining stock; after '#' a JSON pointer into the answer, or two, as in /onHand-/allocated")},
		{"orders-sql", &f.Orders.SQL, nil, text.Of("query that returns the orders of {{product}}: order_id, and quantity " +
			"and idempotency_key if there are such columns")},
		{"orders-redis", &f.Orders.Redis, nil, text.Of("Redis command that returns the orders: ids, or JSON objects with " +
			"these fields")},
		{"orders-url", &f.Orders.URL, nil, text.Of("path of your service that returns the orders; after '#' a JSON " +
			"pointer into the answer")},
	}.Add(set, lang)
	cli.FileFlag(set, "service")
	cli.Once(set, "service", "request", "key-header", "stock-sql", "stock-redis", "stock-url", "orders-sql",
		"orders-redis",
		"orders-url")
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if other, is := statusNames[name]; is {
			name = other
		}
		return pflag.NormalizedName(name)
	})
}

// meanings declares the flags that say what an answer means.
func (s *serviceFlags) meanings(set *pflag.FlagSet, lang string) {
	f := &s.f
	cli.Flags{
		{"ok", &s.ok, "200,201", text.Of("HTTP statuses that mean: sold")},
		{"ok-body", &f.OK.Body, nil, text.Of("regular expression that the body of a sold answer must match as well")},
		{"refused", &s.refused, "409", text.Of("HTTP statuses that mean: sold out")},
		{"refused-body", &f.Refused.Body, nil, text.Of("the same for a sold-out answer")},
		{"declined", &s.declined, "423,429,503", text.Of("HTTP statuses that mean: busy, nothing has happened; any " +
			"other status means: unknown, the sale may have happened")},
		{"declined-body", &f.Declined.Body, nil, text.Of("the same for a busy answer")},
		{"order-id", &f.OrderID, nil, text.Of("JSON pointer of the order's id in the answer (default: order_id or " +
			"orderId)")},
	}.Add(set, lang)
	cli.Once(set, "ok-body", "refused-body", "declined-body", "order-id")
}

// anyStatus is what a flag for statuses says where the body alone decides: any below 500.
const anyStatus = "any"

// fromFile marks a flag whose value comes from the file of --service: no command line needs to repeat it.
const fromFile = "shop.yaml"

// replaced says whether a flag that was given replaces a field that is another flag: of the places of the stock, of
// those of the orders, and of the resets the user gives all or none. A variable and a header replace their namesake, so
// that a password can stay out of a file that has the others.
func replaced(given *pflag.Flag, x shopfile.Setting) bool {
	if given.Name == x.Flag && namesEnd[x.Flag] != "" {
		return slices.ContainsFunc(cli.Values(given), func(value string) bool {
			one, _, _ := strings.Cut(value, namesEnd[x.Flag])
			other, _, _ := strings.Cut(x.Value, namesEnd[x.Flag])
			return one == other || x.Flag != "env" && strings.EqualFold(one, other)
		})
	}
	groups := []string{"stock-", "orders-", "reset-"}
	return given.Name == x.Flag || slices.ContainsFunc(groups, func(group string) bool {
		return strings.HasPrefix(given.Name, group) && strings.HasPrefix(x.Flag, group) &&
			given.Name != "reset-within" && x.Flag != "reset-within"
	})
}

// namesEnd has the flags whose values begin with a name, and where it ends.
var namesEnd = map[string]string{"env": "=", "header": ":", "read-header": ":"}

// load reads the file of --service into the flags that were not given, and the steps that it has.
func (s *serviceFlags) load(set *pflag.FlagSet) (err error) {
	if s.path == "" {
		return nil
	}
	if s.file, err = shopfile.Read(s.path); err != nil {
		return cli.Misuse(err)
	}
	var given []*pflag.Flag
	set.Visit(func(f *pflag.Flag) { given = append(given, f) })
	if set.Changed("request") && s.file.Buy != nil {
		return cli.Usage(text.Of("--request cannot replace buy in %s, which has several steps or a cancel: change "+
			"the file"), s.path)
	}
	for _, x := range s.file.Settings {
		f := flagOf(set, x)
		if f == nil || slices.ContainsFunc(given, func(f *pflag.Flag) bool { return replaced(f, x) }) {
			continue
		}
		if err := set.Set(x.Flag, x.Value); err != nil {
			return cli.Usage(text.Of("%s:%d: %s: %w"), s.path, x.Line, x.Field, err)
		}
		if slices.Contains(given, f) { // some of its values are not in the file: again must repeat them
			continue
		}
		f.Annotations = maps.Clone(f.Annotations)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[fromFile] = []string{}
	}
	f := &s.f
	f.Arrange, f.Buy, f.Session, f.Then, f.Order = s.file.Arrange, s.file.Buy, s.file.Session, s.file.Then, s.file.Order
	f.Cancel, f.Ship = s.file.Cancel, s.file.Ship
	f.OK.Location, f.Refused.Location, f.Declined.Location = s.file.Sold, s.file.Refused, s.file.Declined
	if s.file.Products != nil && f.Products == nil {
		f.Products = s.file.Products
	}
	return nil
}

// flagOf returns the flag of a command that a field is; nil = the command does not take the field. How a service starts
// is the lab's affair: a load test goes to one that runs, and its database has its tables.
func flagOf(set *pflag.FlagSet, x shopfile.Setting) *pflag.Flag {
	if strings.HasPrefix(x.Field, "start.") && set.Lookup("serve") == nil {
		return nil
	}
	return set.Lookup(x.Flag)
}

// where says of a mistake that names a flag which field of the file it is, of several the one whose value it shows.
// A field that is missing is reported in line 1. The file is not named for a mistake in a flag that was given.
func (s *serviceFlags) where(set *pflag.FlagSet, err error) error {
	if err == nil || s.file == nil {
		return err
	}
	said := text.ErrorIn("en", err)
	named := flagNamed.FindStringSubmatch(said)
	if named == nil {
		return text.Of("%s:1: %w").Errorf(s.path, err)
	}
	if f := set.Lookup(named[1]); f != nil && f.Changed && f.Annotations[fromFile] == nil {
		return err
	}
	shows := func(value string) bool { // quoted, or the file that cannot be opened
		file, is := strings.CutPrefix(value, "@")
		return strings.Contains(said, strconv.Quote(value)) || is && strings.Contains(said, " "+file+": ")
	}
	for _, shown := range []bool{true, false} {
		for _, x := range s.file.Settings {
			f := set.Lookup(x.Flag)
			if f == nil || f.Annotations[fromFile] == nil || named[2] == "" && shown && !shows(x.Value) {
				continue
			}
			is := x.Flag == named[1] || strings.HasSuffix(named[1], "-") && strings.HasPrefix(x.Flag, named[1])
			if is && (named[2] == "" || slices.Contains(target.Mentions(x.Value), named[2])) {
				return text.Of("%s:%d: %s: %w").Errorf(s.path, x.Line, x.Field, err)
			}
		}
	}
	return text.Of("%s:1: %w").Errorf(s.path, err)
}

// flagNamed matches the flag that a mistake begins with, which may be one of a group, and the placeholder that is
// wrong.
var flagNamed = regexp.MustCompile(`^--([a-z-]+)(?:(?:\.\.\.)?: unknown placeholder \{\{(\w+)\}\})?`)

// read completes the description by the flags that must be parsed.
func (s *serviceFlags) read(f *target.Foreign) (err error) {
	for _, x := range []struct {
		name, text string
		into       *target.Meaning
	}{{"ok", s.ok, &f.OK}, {"refused", s.refused, &f.Refused}, {"declined", s.declined, &f.Declined}} {
		switch {
		case x.text != anyStatus:
			x.into.Statuses, err = statuses(x.text)
		case x.into.Body+x.into.Location == "":
			err = text.Of("it needs --%s-body").Errorf(x.name)
		}
		if err != nil {
			return cli.Usage(text.Of("--%s %q: %w"), x.name, x.text, err)
		}
	}
	for _, said := range s.setup {
		more, err := statements(said)
		if err != nil {
			return cli.Usage(text.Of("--setup-sql: %w"), err)
		}
		f.SetupSQL = append(f.SetupSQL, more...)
	}
	return nil
}

// alone refuses a flag that describes a service, but for some, if the flag that says which one is missing: it would say
// nothing.
func alone(set *pflag.FlagSet, which string, but ...string) (err error) {
	ours := set.Lookup(which).Annotations[cli.SectionAnnotation]
	set.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != which && !slices.Contains(but, f.Name) &&
			slices.Equal(f.Annotations[cli.SectionAnnotation], ours) {
			err = cli.Usage(text.Of("--%s needs --%s"), f.Name, which)
		}
	})
	return err
}

// statuses reads a list of HTTP statuses.
func statuses(said string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(said, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 100 || n > 599 {
			return nil, text.Of("want HTTP statuses, comma-separated, as in 200,201").Errorf()
		}
		all = append(all, n)
	}
	return all, nil
}

// statements returns one statement, or those of "@FILE": there each ends with a semicolon at the end of a line.
func statements(said string) ([]string, error) {
	if file, ok := strings.CutPrefix(said, "@"); ok {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		said = string(content)
	}
	var all []string
	for part := range strings.SplitSeq(strings.ReplaceAll(said, "\r\n", "\n")+"\n", ";\n") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all, nil
}
