package target

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"lastitem/say/text"
)

// Check returns the first mistake in the description as an error that names the option to change; nil = none.
func (f *Foreign) Check() error {
	stock, orders := f.Stock.check("stock", false), f.Orders.check("orders", false)
	if err := cmp.Or(f.checkLaunch(), f.checkRequests(), f.checkReset(), stock, orders, f.checkMeanings()); err != nil {
		return err // one mistake at a time
	}
	if f.RepeatWithoutKey && f.HasKey() {
		return text.Of("--repeat-without-key: the requests carry a key (--key-header, or {{key}})").Errorf()
	}
	return f.checkSources()
}

func (f *Foreign) checkMeanings() error {
	for name, m := range map[string]Meaning{"ok": f.OK, "refused": f.Refused, "declined": f.Declined} {
		if _, err := regexp.Compile(m.Body); err != nil {
			return fmt.Errorf("--%s-body: %w", name, err)
		}
	}
	for _, status := range f.OK.Statuses {
		if f.OK.Body+f.Refused.Body+f.OK.Location+f.Refused.Location == "" && slices.Contains(f.Refused.Statuses, status) {
			flag := "ok"
			if status <= http.StatusCreated { // 200 and 201 usually mean sold, so the mistake is in --refused
				flag = "refused"
			}
			return text.Of("--%s: status %d means both sold and sold out: tell the answers apart by --ok-body and "+
				"--refused-body").Errorf(flag, status)
		}
	}
	return nil
}

func (f *Foreign) checkLaunch() error {
	words, err := splitWords(f.Serve)
	switch {
	case err != nil:
		return fmt.Errorf("--serve: %w", err)
	case len(words) == 0:
		return text.Of("--serve: want the command that starts a replica of your service").Errorf()
	}
	err = onlyMentions("serve", f.Serve, launchWords)
	for _, said := range f.Env {
		err = cmp.Or(err, onlyMentions("env", said, launchWords))
	}
	if err != nil {
		return err
	}
	for _, said := range f.SetupCmd {
		if err := cmp.Or(aCommand(said), onlyMentions("setup-cmd", said, serverWords)); err != nil {
			return fmt.Errorf("--setup-cmd %q: %w", said, err)
		}
	}
	for _, e := range f.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return text.Of("--env %q: want NAME=VALUE").Errorf(e)
		}
	}
	if all := f.launched(); !slices.Contains(all, "port") && !slices.Contains(all, "addr") {
		return text.Of("--serve: use {{port}} or {{addr}}, also in --env, to tell your service on which port of 127.0.0.1 " +
			"to listen").Errorf()
	}
	if !f.UsesRedis() && !f.UsesSQL() {
		return text.Of("--serve: use {{redis}}, {{mysql}} or {{postgres}} (or parts such as {{redis_host}}, " +
			"{{mysql_port}}), also in --env, to give your service the addresses of the proxies: the lab can stop only what " +
			"passes its proxies").Errorf()
	}
	if f.UsesMySQL() && f.UsesPostgres() {
		return text.Of("--serve: {{mysql}} and {{postgres}} exclude each other: the lab reads one database").Errorf()
	}
	return nil
}

// aCommand returns an error if a text is no command line.
func aCommand(said string) error {
	words, err := splitWords(said)
	if err == nil && len(words) == 0 {
		err = text.Of("want a command").Errorf()
	}
	return err
}

func (f *Foreign) checkRequests() error {
	if _, err := f.Caller(); err != nil {
		return err
	}
	if err := onlyMentions("request", f.Request, askWords); f.Buy == nil && err != nil {
		return err
	}
	if slices.Contains(f.Products, "") {
		return text.Of("--products %s: want names, as in 7f3e,SKU-1").Errorf(strings.Join(f.Products, ","))
	}
	for i, h := range slices.Concat(f.Headers, f.ReadHeaders) {
		flag := "header"
		if i >= len(f.Headers) {
			flag = "read-header"
		}
		if name, _, ok := strings.Cut(h, ":"); !ok || strings.TrimSpace(name) == "" || strings.ContainsAny(h, "\r\n") {
			return text.Of("--%s %q: want 'Name: value'").Errorf(flag, h)
		}
		if err := onlyMentions(flag, h, askWords); err != nil {
			return err
		}
	}
	return nil
}

// Resets says whether the description tells how to set the stock.
func (f *Foreign) Resets() bool {
	return len(f.ResetSQL)+len(f.ResetRedis)+len(f.ResetURL)+len(f.ResetCmd) > 0
}

func (f *Foreign) checkReset() error {
	if !f.Resets() {
		return text.Of("give --reset-sql, --reset-redis, --reset-url or --reset-cmd: every schedule begins with {{stock}} " +
			"units of {{product}} and no orders").Errorf()
	}
	return f.checkResets()
}

func (f *Foreign) checkResets() error {
	for _, said := range f.ResetURL {
		if _, err := f.parse(said); err != nil {
			return text.Of("--reset-url %q: %w").Errorf(said, err)
		}
	}
	for _, said := range slices.Concat(f.ResetSQL, f.ResetRedis, f.ResetURL) {
		if err := onlyMentions("reset-...", said, resetWords); err != nil {
			return err
		}
	}
	for _, said := range f.ResetCmd {
		if err := cmp.Or(aCommand(said), onlyMentions("reset-cmd", said, resetRun)); err != nil {
			return fmt.Errorf("--reset-cmd %q: %w", said, err)
		}
	}
	for _, said := range f.ResetRedis {
		words, err := splitWords(said)
		switch {
		case err != nil:
			return text.Of("--reset-redis %q: want a Redis command (%w)").Errorf(said, err)
		case len(words) == 0:
			return text.Of("--reset-redis %q: want a Redis command").Errorf(said)
		}
	}
	return nil
}

// usesCommands and usesDatabase say whether an option reads or resets Redis or SQL.
func (f *Foreign) usesCommands() bool {
	return f.Stock.Redis+f.Orders.Redis != "" || len(f.ResetRedis) > 0
}

func (f *Foreign) usesDatabase() bool {
	return f.Stock.SQL+f.Orders.SQL != "" || len(f.ResetSQL)+len(f.SetupSQL) > 0
}

// checkSources returns an error if an option reads or resets Redis or SQL although the service does not use that
// server.
func (f *Foreign) checkSources() error {
	if f.usesCommands() && !f.UsesRedis() {
		return text.Of("--serve has no {{redis}}: the lab has no Redis to read or to reset").Errorf()
	}
	if f.usesDatabase() && !f.UsesSQL() {
		return text.Of("--serve has no {{mysql}} or {{postgres}}: the lab has no database to read or to reset").Errorf()
	}
	return nil
}

// check returns the mistake in a source; absolute says that it may be a URL instead of a path of the service.
func (s Source) check(what string, absolute bool) error {
	given := 0
	for _, said := range []string{s.SQL, s.Redis, s.URL} {
		if said != "" {
			given++
		}
		if err := onlyMentions(what+"-...", said, []string{"product"}); err != nil {
			return err
		}
	}
	if given != 1 {
		return text.Of("--%s-sql, --%s-redis or --%s-url: want one of them, from which the lab reads what was sold").
			Errorf(what, what, what)
	}
	if _, err := splitWords(s.Redis); err != nil {
		return fmt.Errorf("--%s-redis: %w", what, err)
	}
	if s.URL != "" && !strings.HasPrefix(s.URL, "/") && (!absolute || hostOf(s.URL) == "") {
		return text.Of("--%s-url %q: want a path of your service, as in /products/{{product}}#/stock").Errorf(what, s.URL)
	}
	return nil
}

// onlyPlaceholder matches a value that the lab fills in, and that tells nothing.
var onlyPlaceholder = regexp.MustCompile(`^\s*(?:Bearer |Token )?\{\{\w+\}\}\s*$`)

// MarshalJSON leaves the values of Env and Headers out, which may be passwords: a story holds their names. Placeholders
// stay.
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
	f.Env, f.Headers, f.ReadHeaders = names(f.Env, "="), names(f.Headers, ":"), names(f.ReadHeaders, ":")
	f.Session = names(f.Session, ":")
	f.Arrange, f.Buy = slices.Clone(f.Arrange), slices.Clone(f.Buy)
	if f.Then != nil {
		then := *f.Then
		f.Then = &then
	}
	for _, s := range []**Step{&f.Cancel, &f.Ship} {
		if *s != nil {
			copied := **s
			*s = &copied
		}
	}
	for _, s := range f.steps() {
		s.Headers = names(s.Headers, ":")
	}
	return json.Marshal(fields(f))
}

// steps are all steps.
func (f *Foreign) steps() (all []*Step) {
	for i := range f.Arrange {
		all = append(all, &f.Arrange[i])
	}
	for i := range f.Buy {
		all = append(all, &f.Buy[i])
	}
	if f.Then != nil {
		all = append(all, &f.Then.Step)
	}
	for _, s := range []*Step{f.Cancel, f.Ship} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// Sends lists the requests of a purchase, and those that end its order, METHOD PATH [BODY].
func (f *Foreign) Sends() (all []string) {
	for _, s := range f.steps() {
		all = append(all, strings.TrimSpace(s.String()+" "+s.Body))
	}
	if all == nil {
		all = []string{f.Request}
	}
	return all
}

// Complete gives the variables and headers of a story their values: those of env (NAME=VALUE) and headers ("Name:
// value"), else those of lookup, where the header X-Api-Key is X_API_KEY. It returns the options that are missing.
func (f *Foreign) Complete(env, headers []string, lookup func(string) (string, bool)) (missing []string) {
	type given struct {
		all, given  []string
		sep, option string
	}
	places := []given{
		{f.Env, env, "=", "--env "}, {f.Headers, headers, ":", "--header "},
		{f.ReadHeaders, headers, ":", "--read-header "}, {f.Session, headers, ":", "--header "},
	}
	for _, s := range f.steps() {
		places = append(places, given{s.Headers, headers, ":", "--header "})
	}
	for _, x := range places {
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
