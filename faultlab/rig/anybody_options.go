package rig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Check returns the first mistake in the description as an error that names the option to change; nil = none.
func (f *Foreign) Check() error {
	errs := []error{f.checkLaunch(), f.checkRequests(), f.checkReset(), f.Stock.check("stock"), f.Orders.check("orders")}
	for name, m := range map[string]Meaning{"ok": f.OK, "refused": f.Refused, "declined": f.Declined} {
		if _, err := regexp.Compile(m.Body); err != nil {
			errs = append(errs, fmt.Errorf("--%s-body: %w", name, err))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err // one mistake at a time
		}
	}
	return f.checkSources()
}

func (f *Foreign) checkLaunch() error {
	words, err := SplitWords(f.Serve)
	switch {
	case err != nil:
		return fmt.Errorf("--serve: %w", err)
	case len(words) == 0:
		return errors.New("--serve: want the command that starts a replica of your service")
	}
	for _, text := range append([]string{f.Serve}, f.Env...) {
		if err := onlyMentions("serve", text, launchWords); err != nil {
			return err
		}
	}
	for _, e := range f.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("--env %q: want NAME=VALUE", e)
		}
	}
	if all := f.launched(); !slices.Contains(all, "port") && !slices.Contains(all, "addr") {
		return errors.New("--serve: use {{port}} or {{addr}}, also in --env, to tell your service on which port of 127.0.0.1 to listen")
	}
	if !f.UsesRedis() && !f.UsesSQL() {
		return errors.New("--serve: use {{redis}} or {{mysql}} (or parts such as {{redis_host}}, {{mysql_port}}), also in --env, to give your service the addresses of the proxies: the lab can stop only what passes its proxies")
	}
	return nil
}

func (f *Foreign) checkRequests() error {
	if _, _, _, err := splitRequest(f.Request); err != nil {
		return fmt.Errorf("--request %q: %w", f.Request, err)
	}
	if err := onlyMentions("request", f.Request, askWords); err != nil {
		return err
	}
	for _, h := range f.Headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("--header %q: want 'Name: value'", h)
		}
		if err := onlyMentions("header", h, askWords); err != nil {
			return err
		}
	}
	return nil
}

func (f *Foreign) checkReset() error {
	if len(f.ResetSQL)+len(f.ResetRedis)+len(f.ResetURL) == 0 {
		return errors.New("give --reset-sql, --reset-redis or --reset-url: every schedule begins with {{stock}} units of {{product}} and no orders")
	}
	for _, text := range f.ResetURL {
		if _, _, _, err := splitRequest(text); err != nil {
			return fmt.Errorf("--reset-url %q: %w", text, err)
		}
	}
	for _, text := range slices.Concat(f.ResetSQL, f.ResetRedis, f.ResetURL) {
		if err := onlyMentions("reset-...", text, resetWords); err != nil {
			return err
		}
	}
	for _, text := range f.ResetRedis {
		if words, err := SplitWords(text); err != nil || len(words) == 0 {
			return fmt.Errorf("--reset-redis %q: want a Redis command (%w)", text, errors.Join(err))
		}
	}
	return nil
}

// checkSources returns an error if an option reads or resets Redis or SQL although the service does not use that server.
func (f *Foreign) checkSources() error {
	if (f.Stock.Redis != "" || f.Orders.Redis != "" || len(f.ResetRedis) > 0) && !f.UsesRedis() {
		return errors.New("--serve has no {{redis}}: the lab has no Redis to read or to reset")
	}
	if (f.Stock.SQL != "" || f.Orders.SQL != "" || len(f.ResetSQL)+len(f.SetupSQL) > 0) && !f.UsesSQL() {
		return errors.New("--serve has no {{mysql}}: the lab has no database to read or to reset")
	}
	return nil
}

func (s Source) check(what string) error {
	given := 0
	for _, text := range []string{s.SQL, s.Redis, s.URL} {
		if text != "" {
			given++
		}
		if err := onlyMentions(what+"-...", text, []string{"product"}); err != nil {
			return err
		}
	}
	if given != 1 {
		return fmt.Errorf("--%s-sql, --%s-redis or --%s-url: want one of them, from which the lab reads what was sold", what, what, what)
	}
	if _, err := SplitWords(s.Redis); err != nil {
		return fmt.Errorf("--%s-redis: %w", what, err)
	}
	if s.URL != "" && !strings.HasPrefix(s.URL, "/") {
		return fmt.Errorf("--%s-url %q: want a path of your service, as in /products/{{product}}#/stock", what, s.URL)
	}
	return nil
}
