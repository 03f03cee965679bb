package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"strings"
	"testing"

	"lastitem/say/redact"
	"lastitem/testkit"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                                 "",
		"redis://h:6379/0":                 "redis://h:6379/0",
		"redis://:geheim@h:6379/0":         "redis://:***@h:6379/0",
		"redis://user:geheim@h:6379":       "redis://user:***@h:6379",
		"redis://geheim@h:6379":            "redis://***@h:6379",
		"root:geheim@tcp(h:3306)/shop":     "root:***@tcp(h:3306)/shop",
		"root:ge@he:im@tcp(h:3306)/shop":   "root:***@tcp(h:3306)/shop",
		"root@unix(/run/mysqld.sock)/shop": "root@unix(/run/mysqld.sock)/shop",
		"mysql://root:ge/heim@h/shop":      "mysql://root:***@h/shop",
		"sqlite:/tmp/shop.db":              "sqlite:/tmp/shop.db",
		"redis://:ge,heim@h:1":             "redis://:***@h:1",
		"redis://:ge":                      "redis://:***",
		"redis://h:1,h:2":                  "redis://h:1,h:2",
		"redis://[::1]:6379":               "redis://[::1]:6379",
		"redis://:a@h:1, redis://:b@h:2":   "redis://:***@h:1, redis://:***@h:2",
		"http://h:1,http://h:2":            "http://h:1,http://h:2",
		"redis://h/0?master_name=m&pasword=geheim&username=u":                        "redis://h/0?master_name=m&pasword=***&username=u",
		"redis://h/0?password=1234#x":                                                "redis://h/0?password=***",
		"redis://h/0#geheim":                                                         "redis://h/0#***",
		"shop:geheim@tcp(h)/db?password=zzz&autocommit=1&allowNativePasswords=false": "shop:***@tcp(h)/db?password=***&autocommit=1&allowNativePasswords=false",
		"redis://h:1/0?password=a@b:geheim":                                          "redis://h:1/0?password=***",
		"redis://u:a@b?c=d@geheim":                                                   "redis://u:***",
		"redis+sentinel://u:geheim@a:1,b:2/m/0":                                      "redis+sentinel://u:***@a:1,b:2/m/0",
		"u:geheim@h:2181,h:2182":                                                     "u:***@h:2181,h:2182",
	} {
		testkit.Is(t, redact.Address(address), want, "Address(%q)", address)
	}
	given := "redis://u:p%40ss@h:1,redis://:second@h:2/0?password=third"
	if got := fmt.Sprint(redact.Secrets(given, redact.Address(given))); got != "[p%40ss p@ss second third]" {
		t.Errorf("Secrets() = %s", got)
	}
}

// What holds no secret is not touched.
func TestTextLeavesTheRest(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"want user:password@tcp(host:port)/database, mysql://user:password@host:port/database or sqlite:/path/to/file.db",
		"redis://[:密码@]主机:端口/库号，TLS 写 rediss://；http://127.0.0.1:8080，再看", "see http://h:1. (http://h:2) http://h:3;",
		"admin_token=set lock:{101} token 17, fence=3", `{"token":""}`, "Authorization: Bearer $SHOP_ADMIN_TOKEN",
		"SHOP_ADMIN_TOKEN_FILE=/run/secrets/token",
		"http://localhost:8080/items?page=2&email=a@b.example", "DB_PASSWORD={{mysql_password}}",
		`level=INFO msg=shop redis="redis://h:1/0" at=12:30:01`,
		"--env &#39;API_TOKEN=***&#39; --sql 'u:***@tcp(h)/db'", "dial tcp 127.0.0.1:6379: connect: connection refused",
		"export SHOP_ADMIN_TOKEN=$(cat token)", "go.example/mod@v1.2.3 https://h/mod@v1",
	} {
		if got := redact.Text(text); got != text {
			t.Errorf("Text(%q) = %q, want it unchanged", text, got)
		}
	}
}

// A secret is hidden wherever it can stand, whatever is in it, and whatever has quoted or encoded the text since.
func FuzzText(f *testing.F) {
	for _, s := range []string{"s3cretX", `p"ss\w`, "p%40ss", "a@b:c", "a&b", "ge,heim", "$ecret", "true1", "p#ss",
		"ключ密", "a;b", "x=y", "{{x}", "***q"} {
		f.Add(s)
	}
	places := []string{
		"redis://:%s@h:1/0", "redis://u:%s@h:1,redis://:%s@h:2", "redis://h:1/0?master_name=m&password=%s",
		"u:%s@tcp(h:3306)/db?tls=true",
		"mysql://u:%s@h/db", "http://h/x?access_token=%s", "Authorization: Bearer %s", "X-Api-Key: %s", "Cookie: sid=%s",
		"API_TOKEN=%s", "--env DB_PASSWORD=%s",
		`POST /buy {"id":1,"password":"%s"}`, "u:%s@h:9092", "jdbc:mysql://h/db?user=u&password=%s", "https://u:%s@h",
	}
	f.Fuzz(func(t *testing.T, s string) {
		const mark = "Qz7" // at both ends, so that no part of the secret gets lost among other words
		if strings.ContainsAny(s, " \t\r\n/'<>`\v\f\u0085\u00a0，。；：、（）") || strings.ToValidUTF8(s, "") != s ||
			strings.ContainsFunc(s, func(r rune) bool {
				return r < ' ' || r > 0x2000 && r < 0x3000
			}) {
			return // a password with these is hidden by Address alone, which knows where the address ends
		}
		secret := mark + s + mark
		for _, place := range places {
			raw := strings.ContainsAny(s, `"\`)
			if strings.Contains(place, "=%s") && strings.Contains(s, "&") || raw && strings.Contains(place, `"`) {
				continue // it has to be escaped there
			}
			text := fmt.Sprintf(strings.ReplaceAll(place, "%s", "%[1]s"), secret)
			var logged, asJSON bytes.Buffer
			slog.New(slog.NewTextHandler(redact.Writer(&logged), nil)).Info("shop", "at", text, "err",
				fmt.Errorf("address %q: bad", text))
			slog.New(slog.NewJSONHandler(redact.Writer(&asJSON), nil)).Info("shop", "at", text)
			quoted, _ := json.Marshal([]string{text, text})
			for form, got := range map[string]string{
				"plain": redact.Text(text), "quoted": redact.Text(fmt.Sprintf("%q (want another)", text)), "log": logged.String(),
				"JSON log": asJSON.String(),
				"JSON":     redact.Text(string(quoted)), "HTML": redact.Text("<td>" + html.EscapeString(text) + "</td>"),
				"Address": redact.Address(text),
			} {
				if form == "Address" && !strings.Contains(place, "@") || raw && (form == "plain" || form == "HTML") {
					continue
				}
				if strings.Contains(got, mark) {
					t.Errorf("%s of %s shows the secret %q: %s", form, place, secret, got)
				}
			}
			if !json.Valid([]byte(redact.Text(string(quoted)))) {
				t.Errorf("the JSON of %s is none any more: %s", place, redact.Text(string(quoted)))
			}
		}
	})
}
