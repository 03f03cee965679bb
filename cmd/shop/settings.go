package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	manual "lastitem/docs"
	"lastitem/internal/cli"
	"lastitem/internal/replica"
	"lastitem/internal/stock/pages"
	"lastitem/loadtest/report"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// 'shop settings --docs' writes docs/settings.md and docs/settings.zh.md.
//go:generate go run . settings --docs ../../docs

type settingGroup struct {
	name string
	text text.Text
}

// settingGroups are the headings of the settings, in their order. In [replica.Config], the tag group marks the first
// field of a group.
var settingGroups = []settingGroup{
	{"replica", text.Of("Replica")},
	{"backends", text.Of("Backends")},
	{"times", text.Of("Times")},
	{"retention", text.Of("Retention")},
	{"tickets", text.Of("Tickets")},
	{"traces", text.Of("Traces")},
	{"logs", text.Of("Logs")},
	{"common", text.Of("Common variables")},
	{"compose", text.Of("Docker Compose (`make up`, in `.env`)")},
	{"tests", text.Of("Tests")},
}

// otherSettings are the settings that are no flags of a replica: those of libraries, scripts, docker-compose.yml, tests
// and other subcommands.
var otherSettings = []replica.Setting{
	{Name: "OTEL_SERVICE_NAME", Default: "lastitem", Help: text.Of("name of the service in traces"), Group: "common"},
	{Name: "OTEL_RESOURCE_ATTRIBUTES", Help: text.Of("further attributes of the service in traces: name=value, several " +
		"comma-separated"), Group: "common"},
	{Name: "OTEL_TRACES_SAMPLER", Default: "parentbased_always_on",
		Help: text.Of("which deductions are traced; see OpenTelemetry's documentation"), Group: "common"},
	{Name: "OTEL_TRACES_SAMPLER_ARG", Help: text.Of("argument of the sampler, such as the share of deductions: 0.01"),
		Group: "common"},
	{Name: "OTEL_BSP_*", Help: text.Of("how traces are batched before they are sent; see OpenTelemetry's documentation"),
		Group: "common"},
	{Name: "LANG", Help: text.Of("language of the command line, as --lang: Chinese if it begins with zh and its " +
		"character set is UTF-8 (zh_CN.GBK: English); LC_ALL and LC_MESSAGES come before it"), Group: "common"},
	{Name: "NO_COLOR", Help: text.Of("any value turns colours off, and so does TERM=dumb"), Group: "common"},
	{Name: "COLUMNS", Help: text.Of("width of results that are not written to a terminal"), Group: "common"},
	{Name: "TMPDIR", Default: "/tmp", Help: text.Of("directory in which local stacks create their own directories"),
		Group: "common"},
	{Name: "XDG_CACHE_HOME", Default: "~/.cache", Help: text.Of("directory of caches: scripts keep downloads in its " +
		"subdirectory lastitem/, and Kafka's jars are looked for there"), Group: "common"},
	{Name: "SHOP_PORT", Default: "8080", Help: text.Of("port of nginx on 127.0.0.1"), Group: "compose"},
	{Name: "SHOP_GRAFANA_PORT", Default: "3000", Help: text.Of("port of Grafana on 127.0.0.1, with the profile observe"),
		Group: "compose"},
	{Name: "SHOP_JAEGER_PORT", Default: "16686", Help: text.Of("port of Jaeger on 127.0.0.1, with the profile observe"),
		Group: "compose"},
	{Name: "SHOP_SQL_PASSWORD", Help: text.Of("password of the database user, set when the volume is made; `make up` " +
		"generates it"), Group: "compose"},
	{Name: "SHOP_REDIS_PASSWORD", Help: text.Of("password of Redis; `make up` generates it"), Group: "compose"},
	{Name: "SHOP_EDGE_MAX_FAILS", Default: "1", Help: text.Of("failures after which nginx takes a replica out for 2 s; " +
		"0: never, for fault tests"), Group: "compose"},
	{Name: "SHOP_NET", Default: "10.213.77", Help: text.Of("first three numbers of the IPv4 network between nginx and " +
		"the replicas; `make up` chooses them"), Group: "compose"},
	{Name: "SHOP_IMAGE", Default: "lastitem:dev", Help: text.Of("image of the replicas; if it is set, make up runs it " +
		"and builds none"), Group: "compose"},
	{Name: "SHOP_CPUS", Default: "2", Help: text.Of("CPUs that each container may use"), Group: "compose"},
	{Name: "COMPOSE_PROFILES", Help: text.Of("additional services to start; `make up PROFILES=...` writes it"),
		Group: "compose"},
	{Name: "COMPOSE_PROJECT_NAME", Default: "lastitem", Help: text.Of("prefix of the names of containers and volumes"),
		Group: "compose"},
	{Name: "SHOP_BINARY", Help: text.Of("program to start as a replica, instead of the running one"), Group: "tests"},
	{Name: "SHOP_TEST_REDIS", Help: text.Of("URL of a Redis to test against; `shop with-stack` sets it"), Group: "tests"},
	{Name: "SHOP_TEST_SQL", Help: text.Of("DSN of a MySQL account that may create databases; `shop with-stack` sets it"),
		Group: "tests"},
	{Name: "SHOP_TEST_ETCD", Help: text.Of("URL of an etcd to test against"), Group: "tests"},
	{Name: "SHOP_TEST_ZOOKEEPER", Help: text.Of("host:port of a ZooKeeper to test against"), Group: "tests"},
	{Name: "SHOP_TEST_CONSUL", Help: text.Of("URL of a Consul to test against"), Group: "tests"},
	{Name: "SHOP_TEST_KAFKA", Help: text.Of("host:port of a Kafka broker to test against"), Group: "tests"},
	{Name: "SHOP_TEST_PROGRAM", Help: text.Of("path of the shop's program, for tests that start processes of it; `shop " +
		"with-stack` sets it to itself"), Group: "tests"},
	{Name: "SHOP_TEST_REQUIRE", Help: text.Of("servers that the tests require (they fail instead of skipping): " +
		"redis,mysql,nginx,..."), Group: "tests"},
	{Name: "SHOP_PROGRAM_REDIS", Help: text.Of("Redis server program to start, also for Redlock's nodes; by default the " +
		"one found on PATH; likewise for the other backends"), Group: "tests"},
	{Name: "SHOP_PROGRAM_MYSQL", Help: text.Of("MySQL or MariaDB server program to start; by default the one found on " +
		"PATH"), Group: "tests"},
	{Name: "SHOP_TEST_SCREENSHOTS", Help: text.Of("directory in which the browser tests leave pictures of the console's " +
		"page"), Group: "tests"},
	{Name: "SHOP_TEST_CONSOLE", Help: text.Of("address of a running console, with its token, that the browser test " +
		"looks at"), Group: "tests"},
	{Name: "SHOP_TEST_CONSOLE_COST", Help: text.Of("rounds of the measurement of the console's costs; `make " +
		"console-cost` sets it"), Group: "tests"},
	{Name: "SHOP_TEST_PICTURES", Help: text.Of("directory of the documentation's pictures, which are taken again; `make " +
		"pictures` sets it"), Group: "tests"},
	{Name: "SHOP_TEST_TIER", Help: text.Of("all, engines: the tests that are left to that tier run; `make test-all` and " +
		"`make test-engines` set it"), Group: "tests"},
	{Name: "SHOP_TEST_REDISSON", Help: text.Of("directory that `scripts/real-redisson` prints: the tests on Redisson " +
		"itself run"), Group: "tests"},
	{Name: "SHOP_TEST_SEED", Default: "1", Help: text.Of("seed of the requests that a test generates from the OpenAPI " +
		"document"), Group: "tests"},
	{Name: "SHOP_TEST_REQUESTS", Default: "3000", Help: text.Of("number of these requests"), Group: "tests"},
	{Name: "SHOP_TEST_TRACK_RECORD", Help: text.Of("all: the tests run every command of docs/track-record.md, not only " +
		"a few"), Group: "tests"},
	{Name: "SHOP_TEST_INSTALL", Default: "yes", Help: text.Of("no: the tiers of tests install nothing"), Group: "tests"},
}

// givenSettings are the values of settings that flags gave, by the name of the variable that each replaces.
type givenSettings map[string]string

// add declares a flag for every setting of a replica, in the sections of the settings.
func (g givenSettings) add(set *pflag.FlagSet, lang string) {
	set.SortFlags = false
	for _, group := range settingGroups {
		cli.Section(set, group.text.In(lang), func() {
			for _, s := range replica.Settings() {
				if s.Group == group.name {
					f := set.VarPF(&settingFlag{given: g, setting: s}, s.Flag(), "", s.Help.In(lang)+" ["+settingNames(s, "$")+"]")
					f.DefValue = s.Default
					if s.Kind == "bool" {
						f.NoOptDefVal = "true"
					}
				}
			}
		})
	}
}

// settingNames are the variables of a setting, each after a mark.
func settingNames(s replica.Setting, mark string) string {
	if s.Secret {
		return mark + s.Name + ", " + mark + s.Name + replica.InFile
	}
	return mark + s.Name
}

// unknown is a variable that begins like a setting and is none, with the setting whose name differs least.
type unknown struct{ name, nearest string }

// foreignSettings match variables of our tests and between our processes, and those that Kubernetes sets for a Service
// named shop or shop-....
var foreignSettings = regexp.MustCompile(`^SHOP_(?:TEST_|PROGRAM_)|^SHOP_GUEST$|_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT(?:_\d+_(?:TCP|UDP)(?:_\w+)?)?$`)

// unknownSettings lists the variables SHOP_... of an environment that nothing reads.
func unknownSettings(environ []string) (all []unknown) {
	var names []string
	for _, s := range append(replica.Settings(), otherSettings...) {
		names = append(names, s.Name)
		if s.Secret {
			names = append(names, s.Name+replica.InFile)
		}
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "SHOP_") || foreignSettings.MatchString(name) || slices.Contains(names, name) {
			continue
		}
		distance := func(of string) int { return text.EditDistance(name, of) }
		all = append(all, unknown{name, slices.MinFunc(names, func(a, b string) int { return distance(a) - distance(b) })})
	}
	slices.SortFunc(all, func(a, b unknown) int { return strings.Compare(a.name, b.name) })
	return all
}

// settingFlag notes the value of a setting; it is parsed with those of the variables.
type settingFlag struct {
	given   givenSettings
	setting replica.Setting
}

func (f *settingFlag) String() string { return f.given[f.setting.Name] }

func (f *settingFlag) Set(value string) error {
	f.given[f.setting.Name] = value
	return nil
}

// Type is the placeholder of the value in the help.
func (f *settingFlag) Type() string { return f.setting.Kind }

// writeSettings lists the settings for a terminal of wide columns; 0 = unknown.
func writeSettings(w io.Writer, lang string, wide int) error {
	if wide == 0 {
		wide = report.DefaultWidth
	}
	var b strings.Builder
	for i, g := range settingGroups {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.ReplaceAll(g.text.In(lang), "`", "") + "\n")
		for _, s := range append(replica.Settings(), otherSettings...) {
			if s.Group != g.name {
				continue
			}
			b.WriteString("  " + settingNames(s, ""))
			if s.Default != "" {
				b.WriteString("=" + s.Default)
			}
			b.WriteString("\n")
			for _, line := range layout.Wrap(s.Help.In(lang), wide-6) {
				b.WriteString("      " + line + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newSettings(lang string) *cobra.Command {
	var docs string
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "settings",
		Short: text.Of("List every setting: environment variables, their defaults, what they do").In(lang),
		Long: text.Of(`Lists the environment variables that a replica ('shop serve'), the command line, Docker Compose and the
tests read. Each of a replica is a flag of 'shop serve' too: SHOP_LOCK_TTL is --lock-ttl. The flag comes before the
variable, and the variable before the default. 'shop up' and 'shop demo' pass the variables of a replica on to the
replicas that they start, except the addresses that they choose themselves.`).In(lang),
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error {
			if docs != "" {
				return writeSettingsPages(docs)
			}
			return out.Write(cmd, func(w io.Writer, form string) error {
				switch form {
				case cli.JSON:
					return cli.WriteJSON(w, map[string]any{"settings": append(replica.Settings(), otherSettings...)})
				case cli.Markdown:
					_, err := io.WriteString(w, settingsTable(lang))
					return err
				}
				_, wide := layout.Terminal(w)
				return writeSettings(w, lang, wide)
			})
		}),
	}
	out.Add(cmd, lang, cli.Text, cli.JSON, cli.Markdown)
	cli.AddLang(cmd.Flags(), &lang)
	cmd.Flags().StringVar(&docs, "docs", "", text.Of("write settings.md and settings.zh.md into this directory").In(lang))
	cmd.MarkFlagsMutuallyExclusive("output", "docs")
	cmd.MarkFlagsMutuallyExclusive("out", "docs")
	return cmd
}

// settingsPage are the words of the page, by language.
var settingsPage = text.Table(struct{ title, other, intro, setting, standard, help string }{
	"# Settings", "中文",
	"lastitem's own environment variables, and the common ones that it respects; `shop settings` lists them too. Those " +
		"of a replica, in the\n" +
		"sections down to Logs, are also flags of `shop serve`: `SHOP_LOCK_TTL` is `--lock-ttl`. A flag comes before its " +
		"variable, and the variable before the default.\n" +
		"`SHOP_REDIS_FILE` and the other names that end with `_FILE` name a file with the value, for passwords and tokens; " +
		"give one of the two. A variable\n" +
		"`SHOP_...` that is no setting gets a warning at start.\n" +
		"Durations need a unit: `500ms`, `10s`, `24h`. An invalid value stops the program at start, with a message that " +
		"says what is valid.\n" +
		"The Go runtime and libraries read further variables, which their documentation describes (`GOMEMLIMIT`, Consul's " +
		"`CONSUL_HTTP_TOKEN`);\n" +
		"scripts and [tests](../CONTRIBUTING.md#one-test-one-server) have variables of their own.\n\n" +
		"`docker-compose.yml` passes the settings of a replica, and the common ones that begin with `OTEL_`, on from " +
		"`.env` (`OTEL_BSP_*` excepted). It sets these\n" +
		"itself: `SHOP_LISTEN`, `SHOP_REPLICA`, `SHOP_EVENTS`, `SHOP_REDIS`, `SHOP_SQL`, `SHOP_MISSING`; and its default " +
		"of `SHOP_DRAIN` is `5s`. `make up` applies a change.",
	"setting", "default", "what it is for",
})

// settingsTable renders one Markdown table per group.
func settingsTable(lang string) string {
	words := settingsPage.In(lang)
	var b strings.Builder
	for i, g := range settingGroups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n| %s | %s | %s |\n| --- | --- | --- |\n", g.text.In(lang), words.setting, words.standard,
			words.help)
		for _, s := range append(replica.Settings(), otherSettings...) {
			if s.Group != g.name {
				continue
			}
			standard := ""
			if s.Default != "" {
				standard = "`" + s.Default + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", "`"+strings.ReplaceAll(settingNames(s, ""), ", ", "`, `")+"`", standard,
				strings.ReplaceAll(s.Help.In(lang), "|", "\\|"))
		}
	}
	return b.String()
}

// writeSettingsPages writes the page in both languages.
func writeSettingsPages(dir string) error {
	for _, lang := range []string{"en", "zh"} {
		words := settingsPage.In(lang)
		page := fmt.Sprintf("%s\n\n[%s](%s)\n\n%s\n\n%s", words.title, words.other,
			manual.Name("settings", pages.Other(lang)), words.intro, settingsTable(lang))
		if err := os.WriteFile(filepath.Join(dir, manual.Name("settings", lang)), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}
