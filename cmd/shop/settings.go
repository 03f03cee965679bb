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

	"lastitem/internal/api"
	"lastitem/internal/replica"
	layout "lastitem/internal/report"
	"lastitem/internal/stock/pages"
	"lastitem/loadtest/report"
)

// 'shop settings --docs' writes docs/settings.md and docs/settings.zh.md.
//go:generate go run . settings --docs ../../docs

type settingGroup struct {
	name string
	text api.Text
}

// settingGroups are the headings of the settings, in their order. In [replica.Config], the tag group marks the first field of a group.
var settingGroups = []settingGroup{
	{"replica", both("Replica", "副本")},
	{"backends", both("Backends", "后端")},
	{"times", both("Times", "超时与探测")},
	{"retention", both("Retention", "数据保留")},
	{"traces", both("Traces", "链路追踪")},
	{"logs", both("Logs", "日志")},
	{"common", both("Common variables", "通用环境变量")},
	{"compose", both("Docker Compose (`make up`, in `.env`)", "Docker Compose（`make up`，写在 `.env` 里）")},
	{"tests", both("Tests", "测试")},
}

// otherSettings are the settings that are no flags of a replica: those of libraries, scripts, docker-compose.yml, tests and other subcommands.
var otherSettings = []replica.Setting{
	{Name: "OTEL_SERVICE_NAME", Default: "lastitem", Help: both("name of the service in traces", "trace 里的服务名"), Group: "common"},
	{Name: "OTEL_RESOURCE_ATTRIBUTES", Help: both("further attributes of the service in traces: name=value, several comma-separated", "trace 里服务的其他属性：名=值，可用逗号分隔多个"), Group: "common"},
	{Name: "OTEL_TRACES_SAMPLER", Default: "parentbased_always_on", Help: both("which deductions are traced; see OpenTelemetry's documentation", "哪些扣减产生 trace，取值见 OpenTelemetry 文档"), Group: "common"},
	{Name: "OTEL_TRACES_SAMPLER_ARG", Help: both("argument of the sampler, such as the share of deductions: 0.01", "采样器的参数，例如采样比例 0.01"), Group: "common"},
	{Name: "OTEL_BSP_*", Help: both("how traces are batched before they are sent; see OpenTelemetry's documentation", "trace 发送前如何攒批，各变量见 OpenTelemetry 文档"), Group: "common"},
	{Name: "LANG", Help: both("language of the command line, as --lang: Chinese if it begins with zh and its character set is UTF-8 (zh_CN.GBK: English); LC_ALL and LC_MESSAGES come before it", "命令行的语言，同 --lang：以 zh 开头且字符集为 UTF-8 则为中文（zh_CN.GBK 用英文）；LC_ALL 和 LC_MESSAGES 优先于它"), Group: "common"},
	{Name: "NO_COLOR", Help: both("any value turns colours off, and so does TERM=dumb", "设为任意值则不用颜色；TERM=dumb 同样如此"), Group: "common"},
	{Name: "COLUMNS", Help: both("width of results that are not written to a terminal", "结果不输出到终端时的宽度"), Group: "common"},
	{Name: "TMPDIR", Default: "/tmp", Help: both("directory in which local stacks create their own directories", "本地环境在这个目录下建自己的目录"), Group: "common"},
	{Name: "XDG_CACHE_HOME", Default: "~/.cache", Help: both("directory of caches: scripts keep downloads in its subdirectory lastitem/, and Kafka's jars are looked for there", "缓存目录：脚本下载的文件放在其下的 lastitem/，也在那里找 Kafka 的 jar"), Group: "common"},
	{Name: "SHOP_PORT", Default: "8080", Help: both("port of nginx on 127.0.0.1", "nginx 在 127.0.0.1 上的端口"), Group: "compose"},
	{Name: "SHOP_SQL_PASSWORD", Help: both("password of the database user, set when the volume is made; `make up` generates it", "数据库用户的密码，在建卷时写入；`make up` 会生成"), Group: "compose"},
	{Name: "SHOP_REDIS_PASSWORD", Help: both("password of Redis; `make up` generates it", "Redis 的密码；`make up` 会生成"), Group: "compose"},
	{Name: "SHOP_EDGE_MAX_FAILS", Default: "1", Help: both("failures after which nginx takes a replica out for 2 s; 0: never, for fault tests", "失败几次后 nginx 将副本摘除 2 秒；0 表示从不摘除，用于故障测试"), Group: "compose"},
	{Name: "SHOP_NET", Default: "10.213.77", Help: both("first three numbers of the IPv4 network between nginx and the replicas; `make up` chooses them", "nginx 与副本之间网络的前三段地址，由 `make up` 选定"), Group: "compose"},
	{Name: "SHOP_IMAGE", Default: "lastitem:dev", Help: both("image of the replicas; if it is set, make up runs it and builds none", "副本的镜像；设置后 make up 直接用它，不再构建"), Group: "compose"},
	{Name: "SHOP_CPUS", Default: "2", Help: both("CPUs that each container may use", "每个容器可用的 CPU 数"), Group: "compose"},
	{Name: "COMPOSE_PROFILES", Help: both("additional services to start; `make up PROFILES=...` writes it", "额外启动哪些服务，由 `make up PROFILES=...` 写入"), Group: "compose"},
	{Name: "COMPOSE_PROJECT_NAME", Default: "lastitem", Help: both("prefix of the names of containers and volumes", "容器和卷的名称前缀"), Group: "compose"},
	{Name: "SHOP_BINARY", Help: both("program to start as a replica, instead of the running one", "作为副本启动的程序，默认为当前程序"), Group: "tests"},
	{Name: "SHOP_TEST_REDIS", Help: both("URL of a Redis to test against; `shop with-stack` sets it", "测试用 Redis 的地址，由 `shop with-stack` 设置"), Group: "tests"},
	{Name: "SHOP_TEST_SQL", Help: both("DSN of a MySQL account that may create databases; `shop with-stack` sets it", "测试用 MySQL 的 DSN，账号须能建库，由 `shop with-stack` 设置"), Group: "tests"},
	{Name: "SHOP_TEST_ETCD", Help: both("URL of an etcd to test against", "测试用 etcd 的地址"), Group: "tests"},
	{Name: "SHOP_TEST_ZOOKEEPER", Help: both("host:port of a ZooKeeper to test against", "测试用 ZooKeeper 的 主机:端口"), Group: "tests"},
	{Name: "SHOP_TEST_CONSUL", Help: both("URL of a Consul to test against", "测试用 Consul 的地址"), Group: "tests"},
	{Name: "SHOP_TEST_KAFKA", Help: both("host:port of a Kafka broker to test against", "测试用 Kafka broker 的 主机:端口"), Group: "tests"},
	{Name: "SHOP_TEST_REQUIRE", Help: both("servers that the tests require (they fail instead of skipping): redis,mysql,nginx,...", "缺少时测试失败而不是跳过的服务：redis,mysql,nginx,..."), Group: "tests"},
	{Name: "SHOP_PROGRAM_REDIS", Help: both("Redis server program to start, also for Redlock's nodes; by default the one found on PATH; likewise for the other backends", "要启动的 Redis 程序（红锁节点也用它），默认自动查找；其他后端同理"), Group: "tests"},
	{Name: "SHOP_PROGRAM_MYSQL", Help: both("MySQL or MariaDB server program to start; by default the one found on PATH", "要启动的 MySQL 或 MariaDB 程序，默认自动查找"), Group: "tests"},
	{Name: "SHOP_TEST_SCREENSHOTS", Help: both("directory in which the browser tests leave pictures of the console's page", "浏览器测试存放控制台页面截图的目录"), Group: "tests"},
	{Name: "SHOP_TEST_CONSOLE", Help: both("address of a running console, with its token, that the browser test looks at", "浏览器测试要检查的、已在运行的控制台地址（带令牌）"), Group: "tests"},
	{Name: "SHOP_TEST_CONSOLE_COST", Help: both("rounds of the measurement of the console's costs; `make console-cost` sets it", "测量控制台开销的轮数，由 `make console-cost` 设置"), Group: "tests"},
	{Name: "SHOP_TEST_PICTURES", Help: both("directory of the documentation's pictures, which are taken again; `make pictures` sets it", "存放文档截图的目录，截图会重新生成；由 `make pictures` 设置"), Group: "tests"},
	{Name: "SHOP_TEST_TIER", Help: both("all: the slow tests run too; `make test-all` sets it", "设为 all 时也跑慢测试；由 `make test-all` 设置"), Group: "tests"},
	{Name: "SHOP_TEST_REDISSON", Help: both("directory that `scripts/real-redisson` prints: the tests on Redisson itself run", "`scripts/real-redisson` 打印的目录；设了它才跑真实 Redisson 上的测试"), Group: "tests"},
	{Name: "SHOP_TEST_RACE", Default: "yes", Help: both("no: the tests run without the race detector", "设为 no 时测试不带竞态检测"), Group: "tests"},
	{Name: "SHOP_TEST_SEED", Default: "1", Help: both("seed of the requests that a test generates from the OpenAPI document", "测试根据 OpenAPI 文档生成请求时用的随机种子"), Group: "tests"},
	{Name: "SHOP_TEST_REQUESTS", Default: "3000", Help: both("number of these requests", "生成多少个这样的请求"), Group: "tests"},
	{Name: "SHOP_TEST_TRACK_RECORD", Help: both("all: the tests run every command of docs/track-record.md, not only a few", "设为 all 时，测试会运行 docs/track-record.zh.md 的全部命令，而不是抽几条"), Group: "tests"},
	{Name: "SHOP_TEST_INSTALL", Default: "yes", Help: both("no: `make test` installs nothing", "设为 no 时 `make test` 不安装任何东西"), Group: "tests"},
}

// givenSettings are the values of settings that flags gave, by the name of the variable that each replaces.
type givenSettings map[string]string

// add declares a flag for every setting of a replica, in the sections of the settings.
func (g givenSettings) add(set *pflag.FlagSet, lang string) {
	set.SortFlags = false
	for _, group := range settingGroups {
		section(set, group.text.In(lang), func() {
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

// foreignSettings match variables of our tests and between our processes, and those that Kubernetes sets for a Service named shop or shop-....
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
		distance := func(of string) int { return api.EditDistance(name, of) }
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
	var out output
	cmd := &cobra.Command{
		Use:   "settings",
		Short: both("List every setting: environment variables, their defaults, what they do", "列出全部配置项：环境变量、默认值、作用").In(lang),
		Long: both(`Lists the environment variables that a replica ('shop serve'), the command line, Docker Compose and the tests read. Each of a replica is a flag of
'shop serve' too: SHOP_LOCK_TTL is --lock-ttl. The flag comes before the variable, and the variable before the default. 'shop up' and
'shop demo' pass the variables of a replica on to the replicas that they start, except the addresses that they choose themselves.`,
			`列出副本（'shop serve'）、命令行、Docker Compose 和测试读取的环境变量。副本的配置项同时是 'shop serve' 的命令行选项：SHOP_LOCK_TTL 对应 --lock-ttl。优先级：命令行选项 > 环境变量 > 默认值。'shop up' 和 'shop demo' 会把副本的环境变量传给它们启动的副本，自己选定的地址除外。`).In(lang),
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if docs != "" {
				return writeSettingsPages(docs)
			}
			return out.write(cmd, func(w io.Writer, form string) error {
				switch form {
				case formJSON:
					return writeIndented(w, map[string]any{"settings": append(replica.Settings(), otherSettings...)})
				case formMarkdown:
					_, err := io.WriteString(w, settingsTable(lang))
					return err
				}
				_, wide := layout.Terminal(w)
				return writeSettings(w, lang, wide)
			})
		}),
	}
	cmd.Flags().SortFlags = false
	out.add(cmd, lang, formText, formJSON, formMarkdown)
	addLang(cmd.Flags(), &lang)
	cmd.Flags().StringVar(&docs, "docs", "", both("write settings.md and settings.zh.md into this directory", "把 settings.md 和 settings.zh.md 写到这个目录").In(lang))
	cmd.MarkFlagsMutuallyExclusive("output", "docs")
	cmd.MarkFlagsMutuallyExclusive("out", "docs")
	return cmd
}

// settingsPage are the words of the page, by language.
var settingsPage = map[string]struct{ title, other, intro, setting, standard, help string }{
	"en": {
		"# Settings", "中文",
		"lastitem's own environment variables, and the common ones that it respects; `shop settings` lists them too. Those of a replica, in the\n" +
			"sections down to Logs, are also flags of `shop serve`: `SHOP_LOCK_TTL` is `--lock-ttl`. A flag comes before its variable, and the variable before the default.\n" +
			"`SHOP_REDIS_FILE` and the other names that end with `_FILE` name a file with the value, for passwords and tokens; give one of the two. A variable\n" +
			"`SHOP_...` that is no setting gets a warning at start.\n" +
			"Durations need a unit: `500ms`, `10s`, `24h`. An invalid value stops the program at start, with a message that says what is valid.\n" +
			"The Go runtime and libraries read further variables, which their documentation describes (`GOMEMLIMIT`, Consul's `CONSUL_HTTP_TOKEN`);\n" +
			"scripts and [tests](../CONTRIBUTING.md#one-test-one-server) have variables of their own.\n\n" +
			"`docker-compose.yml` passes the settings of a replica, and the common ones that begin with `OTEL_`, on from `.env` (`OTEL_BSP_*` excepted). It sets these\n" +
			"itself: `SHOP_LISTEN`, `SHOP_REPLICA`, `SHOP_EVENTS`, `SHOP_REDIS`, `SHOP_SQL`, `SHOP_MISSING`; and its default of `SHOP_DRAIN` is `5s`. `make up` applies a change.",
		"setting", "default", "what it does",
	},
	"zh": {
		"# 配置项", "English",
		"lastitem 自己的环境变量，以及它识别的通用环境变量，`shop settings` 也会列出。副本的配置项（到日志为止）同时是 `shop serve` 的命令行选项：\n" +
			"`SHOP_LOCK_TTL` 对应 `--lock-ttl`。优先级：命令行选项 > 环境变量 > 默认值。\n" +
			"`SHOP_REDIS_FILE` 等以 `_FILE` 结尾的变量指定一个文件，值从文件中读取，供密码和令牌使用；两种方式只能用一种。不是配置项的 `SHOP_...` 变量，启动时会有警告。\n" +
			"时长要带单位：`500ms`、`10s`、`24h`。值无法解析时启动失败，并说明应填什么。\n" +
			"依赖库还会读取各自文档里的变量（如 Go 的 `GOMEMLIMIT`、Consul 的 `CONSUL_HTTP_TOKEN`），脚本和[测试](../CONTRIBUTING.md#one-test-one-server)也有自己的变量。\n\n" +
			"`docker-compose.yml` 会把 `.env` 里副本的配置项和 `OTEL_` 开头的通用变量（`OTEL_BSP_*` 除外）传给副本。以下几项由它自己设定：\n" +
			"`SHOP_LISTEN`、`SHOP_REPLICA`、`SHOP_EVENTS`、`SHOP_REDIS`、`SHOP_SQL`、`SHOP_MISSING`；`SHOP_DRAIN` 的默认值改为 `5s`。改完后 `make up` 即生效。",
		"配置项", "默认值", "作用",
	},
}

// settingsTable renders one Markdown table per group.
func settingsTable(lang string) string {
	words := settingsPage[lang]
	var b strings.Builder
	for i, g := range settingGroups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n| %s | %s | %s |\n| --- | --- | --- |\n", g.text.In(lang), words.setting, words.standard, words.help)
		for _, s := range append(replica.Settings(), otherSettings...) {
			if s.Group != g.name {
				continue
			}
			standard := ""
			if s.Default != "" {
				standard = "`" + s.Default + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", "`"+strings.ReplaceAll(settingNames(s, ""), ", ", "`, `")+"`", standard, strings.ReplaceAll(s.Help.In(lang), "|", "\\|"))
		}
	}
	return b.String()
}

// writeSettingsPages writes the page in both languages.
func writeSettingsPages(dir string) error {
	for lang, words := range settingsPage {
		page := fmt.Sprintf("%s\n\n[%s](%s)\n\n%s\n\n%s", words.title, words.other, pages.Name("settings", pages.Other(lang)), words.intro, settingsTable(lang))
		if err := os.WriteFile(filepath.Join(dir, pages.Name("settings", lang)), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}
