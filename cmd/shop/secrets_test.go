package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lastitem/faultlab"
	"lastitem/internal/cli"
	"lastitem/internal/replica"
	"lastitem/say/redact"
	"lastitem/target"
	"lastitem/testkit"
)

// mark begins and ends every planted secret, so that no part of one gets lost among other words.
const mark = "Qz7"

// plants are secrets with everything that ends an address, a parameter or a quotation.
var plants = []string{mark + "s3cret" + mark, mark + `a@b:c,d"e` + mark, mark + "%41%2F" + mark,
	mark + "a b/c?d=e" + mark, mark + "#" + mark}

// places are where a secret (§) can stand in the value of any flag or setting, addresses first; strict are those
// that are a whole address.
var (
	places = []string{
		"redis://u:§@127.0.0.1:1/0", "redis://127.0.0.1:1/0?master_name=m&password=§", "u:§@tcp(127.0.0.1:1)/db",
		"mysql://u:§@127.0.0.1:1/db?sslpassword=§", "postgres://u:§@127.0.0.1:1/db?sslpassword=§",
		"http://u:§@127.0.0.1:1", "http://127.0.0.1:1/x?access_token=§", "u:§@127.0.0.1:1", "Authorization: Bearer §",
		"API_TOKEN=§", `POST /x {"password":"§"}`,
	}
	strict = append([]string{
		"redis+sentinel://u:§@127.0.0.1:1/m/0?sentinel_password=§", "redis://127.0.0.1:1/0?pasword=§",
		"redis://127.0.0.1:1/0#§", "redis://§@127.0.0.1:1",
		"redis://:§", "redis://u:§@127.0.0.1:1,redis://u:§@127.0.0.1:2", "http://u:§@127.0.0.1:1,http://v:§@127.0.0.1:1",
		"sqlite:/tmp/x?key=§",
	}, places[:8]...)
)

// planted calls try with values that hold a secret: for an address each of the places, else four of them, which vary
// with name.
func planted(address bool, name string, try func(value string)) {
	if !address {
		for i := range 4 {
			try(strings.ReplaceAll(places[(len(name)+3*i)%len(places)], "§", plants[0]))
		}
		return
	}
	for i, place := range strict {
		for k := range 2 {
			try(strings.ReplaceAll(place, "§", plants[(2*i+k)%len(plants)]))
		}
	}
}

// over runs a command whose context is over from the start, so that it starts no server, and returns what it printed.
func over(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, errOut := commandLine(ctx, newRoot("en"), args...)
	return code, out + errOut
}

// wantNoSecret looks for the mark in what was printed.
func wantNoSecret(t *testing.T, what, said string) {
	t.Helper()
	if at := strings.Index(said, mark); at >= 0 {
		t.Errorf("%s shows the secret: %s", what, said[max(0, at-200):min(len(said), at+100)])
	}
}

// wantNoSecretFile looks for the mark in every file of the working directory.
func wantNoSecretFile(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		wantNoSecret(t, path, string(text))
		return err
	})
	testkit.Check(t, err)
}

// No setting of a replica shows a secret, wherever it stands in the value, in either format of the log. The settings
// are those of the table, so a new one is tried too.
func TestSecretsOfSettingsNeverLeave(t *testing.T) {
	t.Parallel()
	taken := testkit.Listen(t) // a replica ends when it has logged its settings and cannot listen
	for _, s := range replica.Settings() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			try := func(value string) {
				_, said := over(t, "serve", "--listen="+taken.Addr().String(), "--redis=redis://127.0.0.1:1/0",
					"--health-interval=0",
					"--log-format="+[]string{"text", "json"}[len(value)%2], "--"+s.Flag()+"="+value)
				wantNoSecret(t, s.Name+"="+value, said)
				if said == "" {
					t.Errorf("%s=%s: nothing was said", s.Name, value)
				}
			}
			planted(s.Secret || s.Group == "backends" && s.Kind == "string" && !strings.HasSuffix(s.Name, "PREFIX"), s.Name, try)
			if s.Name == envToken || strings.HasSuffix(s.Name, "HEADERS") {
				try(plants[0])
				try("authorization=" + plants[0])
			}
		})
	}
}

// starting are the commands that would start servers, with arguments that they refuse, or that name a server instead.
var starting = map[string]string{
	"demo": "--url=http://127.0.0.1:1", "rolling": "--url=http://127.0.0.1:1", "up": "--backend=none",
	"play": "--backend=none", "trace": "none", "failover": "none",
	"lab": "--store=none", "write-ups": "--backend=none", "stock": "101", "audit": "101", "lock": "show k",
}

// No flag of any command shows a secret.
func TestSecretsOfFlagsNeverLeave(t *testing.T) {
	t.Chdir(t.TempDir())
	tried := 0
	for _, g := range groups("en") {
		for _, c := range g.commands {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if c.Name() == "serve" || f.Value.Type() == "bool" || f.Value.Type() == "FILE" { // those of serve are settings
					return
				}
				address := f.Name == "url" || slices.Contains(ownFlags, f.Name)
				try := func(value string) {
					tried++
					args := []string{c.Name(), "--" + f.Name + "=" + value}
					ours := slices.Contains([]string{"stock", "audit", "lock"}, c.Name())
					if with := starting[c.Name()]; with != "" && (!address || ours) {
						args = append(args, strings.Fields(with)...)
					}
					_, said := over(t, args...)
					wantNoSecret(t, strings.Join(args, " "), said)
				}
				planted(address, f.Name, try)
				if f.Name == "token" {
					try(plants[0])
				}
			})
		}
	}
	if tried < 300 {
		t.Errorf("%d values were tried, want those of all flags", tried)
	}
	wantNoSecretFile(t)
}

// The files of a load test, in every form, hold no password of --url and none of the request, and are what they were
// otherwise.
func TestSecretsOfResultsNeverLeave(t *testing.T) {
	url := startFakeShop(t, &fakeShop{})
	t.Chdir(t.TempDir())
	for _, form := range []string{"json", "html", "md", "csv", "bench", "txt"} {
		code, out, errOut := commandLine(t.Context(), newRoot("en"), "loadtest", "--url",
			strings.Replace(url, "http://", "http://u:"+plants[0]+"@", 1), "--token", fakeToken,
			"--mode", "lua-lock", "--vus", "2", "--requests", "20", "--stock", "5", "--out", "r."+form, "--history", "h.jsonl")
		if code != cli.ExitOK {
			t.Errorf("%s: exit %d, %s", form, code, errOut)
		}
		wantNoSecret(t, form, out+errOut)
	}
	wantNoSecretFile(t)
}

// A mistyped setting is told, with the setting that was meant; variables of tests, of Kubernetes and of others are not.
func TestUnknownSettings(t *testing.T) {
	t.Parallel()
	environ := []string{
		"SHOP_LISTN=:1", "SHOP_REDIS_FILES=x", "SHOP_CONSUL_FILE=x", "HOME=/", "SHOP_GUEST={}", "SHOP_TEST_NEW=1",
		"SHOP_PROGRAM_ETCD=x",
		"SHOP_SERVICE_HOST=10.0.0.1", "SHOP_PORT_8080_TCP_ADDR=10.0.0.1", "SHOP_REDIS_SERVICE_PORT=1",
		"SHOP_REDIS_PORT=tcp://10.0.0.1:6379", "SHOP_REDIS_FILE=x",
	}
	for _, s := range append(replica.Settings(), otherSettings...) {
		environ = append(environ, s.Name+"=x")
	}
	want := []unknown{{"SHOP_CONSUL_FILE", "SHOP_SQL_FILE"}, {"SHOP_LISTN", "SHOP_LISTEN"},
		{"SHOP_REDIS_FILES", "SHOP_REDIS_FILE"}}
	if got := unknownSettings(environ); !slices.Equal(got, want) {
		t.Errorf("unknownSettings() = %v, want %v", got, want)
	}
}

// A replica logs it, too, without the value.
func TestServeWarnsOfUnknownSettings(t *testing.T) {
	t.Setenv("SHOP_LISTN", plants[0])
	_, said := over(t, "serve", "--redis", "redis://127.0.0.1:1/0", "--listen", "127.0.0.1:0")
	if !strings.Contains(said, `level=WARN msg="unknown setting" name=SHOP_LISTN nearest=SHOP_LISTEN`) {
		t.Errorf("serve says\n%s", said)
	}
	wantNoSecret(t, "SHOP_LISTN", said)
}

// A story holds the names of --env and --header. --replay says which values are missing, takes them from flags or the
// environment, and shows what it is going to run before it starts anything.
func TestStoryHoldsNoValues(t *testing.T) {
	t.Chdir(t.TempDir())
	served := target.Foreign{
		Serve: "app {{port}} {{redis}}", Env: []string{"API_TOKEN=" + plants[0], "REDIS_PASSWORD={{redis_password}}",
			"SALT=" + plants[0]},
		Headers:    []string{"Authorization: Bearer " + plants[0], "X-Tenant: " + plants[0]},
		Request:    "POST /buy?product={{product}}",
		ResetRedis: []string{"SET s 1"}, ResetURL: []string{"POST /reset"}, Stock: target.Source{Redis: "GET s"},
		Orders: target.Source{Redis: "LRANGE o 0 -1"},
	}
	result := faultlab.Result{Serve: &served, Worst: &faultlab.Played{Outcome: "L"}}
	testkit.Must(t, json.Unmarshal([]byte(`{"mode":"service","store":"","fault":"crash",`+
		`"a":{"server":"redis","pattern":"GET","nth":1,"cut":"command"}}`), &result.Worst.Schedule))
	told, err := json.Marshal(result)
	testkit.Must(t, err)
	served.Serve += " --password=" + redact.Hidden
	masked, err := json.Marshal(result)
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(os.WriteFile("story.json", told, 0o600), os.WriteFile("masked.json", masked, 0o600)))
	wantNoSecretFile(t)
	wantRefused(t, newRoot("en"), "--env API_TOKEN ($API_TOKEN), --env SALT ($SALT), --header Authorization "+
		"($AUTHORIZATION), --header X-Tenant ($X_TENANT)",
		"lab", "--replay", "story.json")
	t.Setenv("SALT", plants[0])
	t.Setenv("X_TENANT", plants[0])
	given := []string{"--env", "API_TOKEN=" + plants[0], "--header", "authorization: Bearer " + plants[0]}
	code, said := over(t, append([]string{"lab", "--replay", "story.json"}, given...)...)
	wantNoSecret(t, "--replay", said)
	if code != cli.ExitInterrupted || !strings.Contains(said, `runs this command: "app {{port}} {{redis}}"`) ||
		!strings.Contains(said, `"POST /reset"`) {
		t.Errorf("lab --replay: exit %d, %s; want the command and the requests", code, said)
	}
	wantRefused(t, newRoot("en"), "a secret was left out", append([]string{"lab", "--replay", "masked.json"}, given...)...)
}
