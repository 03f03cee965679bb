package rig

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lastitem/internal/api"
)

// Check returns the first mistake in the description as an error that names the option to change; nil = none.
func (f *Foreign) Check() error {
	stock, orders := f.Stock.check("stock", false), f.Orders.check("orders", false)
	if err := cmp.Or(f.checkLaunch(), f.checkRequests(), f.checkReset(), stock, orders, f.checkMeanings()); err != nil {
		return err // one mistake at a time
	}
	if f.RepeatWithoutKey && f.HasKey() {
		return api.Text{En: "--repeat-without-key: the requests carry a key (--key-header, or {{key}})", Zh: "--repeat-without-key：请求带着幂等键（--key-header 或 {{key}}）"}.Errorf()
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
		if f.OK.Body+f.Refused.Body == "" && slices.Contains(f.Refused.Statuses, status) {
			return api.Text{En: "status %d means both sold and sold out: tell the answers apart by --ok-body and --refused-body", Zh: "状态码 %d 既表示卖出又表示售罄：请用 --ok-body 和 --refused-body 区分"}.Errorf(status)
		}
	}
	return nil
}

func (f *Foreign) checkLaunch() error {
	words, err := SplitWords(f.Serve)
	switch {
	case err != nil:
		return fmt.Errorf("--serve: %w", err)
	case len(words) == 0:
		return api.Text{En: "--serve: want the command that starts a replica of your service", Zh: "--serve：应为启动你的服务的一个副本的命令"}.Errorf()
	}
	for _, text := range append([]string{f.Serve}, f.Env...) {
		if err := onlyMentions("serve", text, launchWords); err != nil {
			return err
		}
	}
	for _, e := range f.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return api.Text{En: "--env %q: want NAME=VALUE", Zh: "--env %q：应为 NAME=VALUE"}.Errorf(e)
		}
	}
	if all := f.launched(); !slices.Contains(all, "port") && !slices.Contains(all, "addr") {
		return api.Text{En: "--serve: use {{port}} or {{addr}}, also in --env, to tell your service on which port of 127.0.0.1 to listen", Zh: "--serve：请用 {{port}} 或 {{addr}}（也可写在 --env 里）告诉你的服务监听 127.0.0.1 的哪个端口"}.Errorf()
	}
	if !f.UsesRedis() && !f.UsesSQL() {
		return api.Text{En: "--serve: use {{redis}} or {{mysql}} (or parts such as {{redis_host}}, {{mysql_port}}), also in --env, to give your service the addresses of the proxies: the lab can stop only what passes its proxies", Zh: "--serve：请用 {{redis}} 或 {{mysql}}（或其中一部分，如 {{redis_host}}、{{mysql_port}}；也可写在 --env 里）把代理的地址告诉你的服务：实验室只能拦住经过代理的命令"}.Errorf()
	}
	return nil
}

func (f *Foreign) checkRequests() error {
	if _, _, _, err := splitRequest(f.Request); err != nil {
		return api.Text{En: "--request %q: %w", Zh: "--request %q：%w"}.Errorf(f.Request, err)
	}
	if err := onlyMentions("request", f.Request, askWords); err != nil {
		return err
	}
	for _, h := range f.Headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || strings.TrimSpace(name) == "" {
			return api.Text{En: "--header %q: want 'Name: value'", Zh: "--header %q：应为 'Name: value'"}.Errorf(h)
		}
		if err := onlyMentions("header", h, askWords); err != nil {
			return err
		}
	}
	return nil
}

func (f *Foreign) checkReset() error {
	if len(f.ResetSQL)+len(f.ResetRedis)+len(f.ResetURL) == 0 {
		return api.Text{En: "give --reset-sql, --reset-redis or --reset-url: every schedule begins with {{stock}} units of {{product}} and no orders", Zh: "请给出 --reset-sql、--reset-redis 或 --reset-url：每个调度开始时 {{product}} 有 {{stock}} 件库存，没有订单"}.Errorf()
	}
	return f.checkResets()
}

func (f *Foreign) checkResets() error {
	for _, text := range f.ResetURL {
		if _, _, _, err := splitRequest(text); err != nil {
			return api.Text{En: "--reset-url %q: %w", Zh: "--reset-url %q：%w"}.Errorf(text, err)
		}
	}
	for _, text := range slices.Concat(f.ResetSQL, f.ResetRedis, f.ResetURL) {
		if err := onlyMentions("reset-...", text, resetWords); err != nil {
			return err
		}
	}
	for _, text := range f.ResetRedis {
		words, err := SplitWords(text)
		switch {
		case err != nil:
			return api.Text{En: "--reset-redis %q: want a Redis command (%w)", Zh: "--reset-redis %q：应为 Redis 命令（%w）"}.Errorf(text, err)
		case len(words) == 0:
			return api.Text{En: "--reset-redis %q: want a Redis command", Zh: "--reset-redis %q：应为 Redis 命令"}.Errorf(text)
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

// checkSources returns an error if an option reads or resets Redis or SQL although the service does not use that server.
func (f *Foreign) checkSources() error {
	if f.usesCommands() && !f.UsesRedis() {
		return api.Text{En: "--serve has no {{redis}}: the lab has no Redis to read or to reset", Zh: "--serve 里没有 {{redis}}：实验室没有可读、可重置的 Redis"}.Errorf()
	}
	if f.usesDatabase() && !f.UsesSQL() {
		return api.Text{En: "--serve has no {{mysql}}: the lab has no database to read or to reset", Zh: "--serve 里没有 {{mysql}}：实验室没有可读、可重置的数据库"}.Errorf()
	}
	return nil
}

// check returns the mistake in a source; absolute says that it may be a URL instead of a path of the service.
func (s Source) check(what string, absolute bool) error {
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
		return api.Text{En: "--%s-sql, --%s-redis or --%s-url: want one of them, from which the lab reads what was sold", Zh: "--%s-sql、--%s-redis、--%s-url：应给出其中之一，实验室从中读出卖了什么"}.Errorf(what, what, what)
	}
	if _, err := SplitWords(s.Redis); err != nil {
		return fmt.Errorf("--%s-redis: %w", what, err)
	}
	if s.URL != "" && !strings.HasPrefix(s.URL, "/") && (!absolute || hostOf(s.URL) == "") {
		return api.Text{En: "--%s-url %q: want a path of your service, as in /products/{{product}}#/stock", Zh: "--%s-url %q：应为你的服务的路径，如 /products/{{product}}#/stock"}.Errorf(what, s.URL)
	}
	return nil
}
