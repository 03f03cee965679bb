package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	layout "lastitem/say/report"
	"lastitem/testkit"
)

// visible are the commands of a tree that users see.
func visible(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(append(root.Commands(), root), func(c *cobra.Command) bool { return c.Hidden })
}

// Every text of every command and flag is in both languages.
func TestHelpInBothLanguages(t *testing.T) {
	t.Parallel()
	english := map[string]*cobra.Command{}
	for _, cmd := range visible(newRoot("en")) {
		english[cmd.Name()] = cmd
	}
	compare := func(what, en, zh string) {
		if !testkit.InChinese(zh) {
			t.Errorf("%s has no Chinese: %q", what, zh)
		}
		if testkit.HasChinese(en) {
			t.Errorf("%s has Chinese in its English: %q", what, en)
		}
	}
	for _, cmd := range visible(newRoot("zh")) {
		en, name := english[cmd.Name()], "shop "+cmd.Name()
		compare(name, en.Short, cmd.Short)
		compare(name+" (long)", en.Long, cmd.Long)
		for i, g := range cmd.Groups() {
			compare("group", en.Groups()[i].Title, g.Title)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			compare(name+" --"+f.Name, en.LocalFlags().Lookup(f.Name).Usage, f.Usage)
			for i, title := range f.Annotations[cli.SectionAnnotation] {
				compare(name+", section of --"+f.Name, en.LocalFlags().Lookup(f.Name).Annotations[cli.SectionAnnotation][i], title)
			}
		})
	}
}

// A help text fits a terminal of 110 columns, in which a Chinese character takes two; and its frame is in its language.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	frame := regexp.MustCompile(`(?m)^(Usage|Examples|Flags|Exit codes|Output|More):|\(default`)
	for _, lang := range []string{"en", "zh"} {
		for _, cmd := range visible(newRoot(lang)) {
			args := []string{cmd.Name(), "--help"}
			if cmd.Name() == "shop" {
				args = args[1:]
			}
			code, out, errOut := commandLine(t.Context(), newRoot(lang), args...)
			if code != cli.ExitOK || errOut != "" || out == "" {
				t.Errorf("shop %q: exit %d, %q", args, code, errOut)
			}
			for line := range strings.SplitSeq(out, "\n") {
				if w := layout.Width(line); w > 110 && !strings.Contains(cmd.Example, line) {
					t.Errorf("shop %q in %s: %d columns: %s", args, lang, w, line)
				}
			}
			if found := frame.FindString(out); lang == "zh" && found != "" {
				t.Errorf("shop %q in zh has %q:\n%s", args, found, out)
			}
		}
	}
}

// The help follows --lang wherever it stands.
func TestLanguage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"--lang zh demo --help", "demo --help --lang=zh", "help demo --lang zh",
		"--lang=zh help demo"} {
		args := strings.Fields(line)
		if code, out, _ := commandLine(t.Context(), newRoot(cli.Language(args, os.Getenv)), args...); code != cli.ExitOK ||
			!strings.Contains(out, "退出码：") {
			t.Errorf("shop %s: exit %d, want the Chinese help:\n%s", line, code, out)
		}
	}
}

// The errors of a command line follow the language, the parser's too.
func TestUsageInChinese(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"nonsense":                          "没有命令 \"nonsense\"\n用法见 'shop --help'。\n",
		"demos":                             "没有命令 \"demos\"（是不是 \"demo\"？）\n",
		"help nonsense":                     "没有命令 \"nonsense\"\n",
		"demo --nope":                       "没有这个选项：--nope（是不是 --mode？）\n用法见 'shop demo --help'。\n",
		"demo -z":                           "没有这个选项：-z\n",
		"demo -qü":                          "没有这个选项：-ü\n",
		"lab --random --seed -1":            "--seed \"-1\"：应为非负整数\n",
		"lab --mode \"a":                    "--mode \"\\\"a\"：应为逗号分隔的列表，引号须成对\n",
		"demo --vus":                        "--vus 需要一个值\n",
		"demo -o":                           "--output 需要一个值\n",
		"demo --=3":                         "--=3 不是选项\n",
		"demo --vus many":                   "--vus \"many\"：应为整数\n",
		"up now":                            "多余的参数 \"now\"：shop up 只接受选项\n",
		"stock":                             "缺少参数：应为 shop stock PRODUCT [UNITS]\n",
		"modes -o json --docs x":            "这些选项不能同时使用：--docs --output\n",
		"modes mutexx":                      "没有模式 \"mutexx\"（是不是 \"mutex\"？）",
		"demo --lang de":                    "--lang \"de\"：应为 en 或 zh\n",
		"lab --fault nonsense":              "--fault \"nonsense\"：可选的有 threads",
		"serve --lock-ttl x":                "--lock-ttl 为 \"x\"，应为带单位的时长",
		"serve --conns 0 --redis r:1":       "--conns 为 0，应至少为 1",
		"completion tcsh":                   "没有 \"tcsh\" 的补全脚本：应为 bash、zsh、fish 或 powershell\n",
		"loadtest --mode all --rate -1":     "--rate 应为每秒 0 到 1000000",
		"loadtest --mode all --threshold x": "无效的阈值 \"x\"：",
	} {
		wantRefused(t, newRoot("zh"), want, append([]string{"--lang", "zh"}, strings.Fields(line)...)...)
	}
}

// onlyEnglish are the errors of this package and of internal/replica that no user reads as they are, with the reason.
var onlyEnglish = map[string]string{
	"not a name":     "parsing a setting: the error names the wanted form instead",
	"unknown format": "parsing a setting: the error names the wanted form instead",
	"serve: %w":      "beside the log of a replica",

	"requests were still running after %s: %w": "in the log of a replica",
	"listener %T":                      "a mistake of ours",
	"connection %T":                    "a mistake of ours",
	"spans: the collector answered %s": "in the log of a replica",
	"spans: %w":                        "wraps an error that has its words",
	"attach a filter: %w":              "in the log of a replica",
}

// An error of these packages is in both languages, unless it has no words or is listed.
func TestErrorsInBothLanguages(t *testing.T) {
	t.Parallel()
	var files []string
	for _, dir := range []string{".", "../../internal/cli", "../../internal/replica"} {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no sources in %s: %v", dir, err)
		}
		files = append(files, found...)
	}
	used := map[string]bool{}
	plain := regexp.MustCompile(`(?:fmt\.Errorf|errors\.New)\(("(?:[^"\\]|\\.)*"|` + "`[^`]*`" + `)`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := testkit.Read(t, file)
		for _, m := range plain.FindAllStringSubmatch(string(text), -1) {
			said, err := strconv.Unquote(m[1])
			testkit.Must(t, err)
			used[said] = true
			if onlyEnglish[said] == "" && !testkit.InChinese(said) {
				t.Errorf("%s: the error %q is in English only", file, said)
			}
		}
	}
	for said := range onlyEnglish {
		if !used[said] {
			t.Errorf("%q is listed, and no error says it", said)
		}
	}
}
