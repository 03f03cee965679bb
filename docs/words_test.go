package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

// replaced are words for which docs/glossary.md or docs/glossary.zh.md has another: one word per idea. Only may lists
// the files that may use the word all the same.
var replaced = []struct {
	word    *regexp.Regexp
	instead string
	only    []string
}{
	{word: regexp.MustCompile(`协调遗漏`), instead: "协同遗漏"},
	{word: regexp.MustCompile(`开放(式)?(模型|负载)|开式模型`), instead: "开环"},
	{word: regexp.MustCompile(`封闭(式)?(模型|负载)|闭式模型`), instead: "闭环"},
	{word: regexp.MustCompile(`(防护|隔离|围栏|屏障)令牌`), instead: "栅栏令牌"},
	{word: regexp.MustCompile(`幂等号|去重(键|号)`), instead: "幂等键"},
	{word: regexp.MustCompile(`租期`), instead: "租约"},
	{word: regexp.MustCompile(`续(约|租)`), instead: "续期"},
	{word: regexp.MustCompile(`更新丢失`), instead: "丢失更新"},
	{word: regexp.MustCompile(`超售`), instead: "超卖"},
	{word: regexp.MustCompile(`移交`), instead: "锁交接"},
	{word: regexp.MustCompile(`每秒成功`), instead: "每秒成交"},
	{word: regexp.MustCompile(`答复`), instead: "应答"},
	{word: regexp.MustCompile(`裁决`), instead: "判定"},
	{word: regexp.MustCompile(`压测端|压测引擎|负载发生器`), instead: "压测工具"},
	{word: regexp.MustCompile(`嵌入式`), instead: "内嵌"},
	{word: regexp.MustCompile(`故障(转移|切换)`), instead: "主从切换"},
	// which speak of MySQL
	{word: regexp.MustCompile(`主库|从库([^存]|$)`), instead: "主节点、从节点",
		only: []string{"docs/servers.zh.md", "docs/scale.zh.md"}},

	{word: regexp.MustCompile(`(?i)\bfail-over`), instead: "failover"},
	{word: regexp.MustCompile(`(?i)\bhand-over`), instead: "handover"},
	// a name there
	{word: regexp.MustCompile(`(?i)\bre-entrant|\breentry\b[^(]`), instead: "reentrant, re-entry",
		only: []string{"internal/handler/deduct.go"}},
	{word: regexp.MustCompile(`(?i)\b(fence|fenced) token`), instead: "fencing token"},
	{word: regexp.MustCompile(`(?i)\b(idempotence|idempotent|dedupe) key`), instead: "idempotency key"},
	{word: regexp.MustCompile(`(?i)\bover-?deducted|\boversale`), instead: "oversold"},
	{word: regexp.MustCompile(`(?i)\bupdate loss\b|\blost write\b`), instead: "lost update"},
	{word: regexp.MustCompile(`(?i)\bcompare-and-set\b`), instead: "compare-and-swap"},
	{word: regexp.MustCompile(`(?i)\bconstant QPS\b`), instead: "open loop"},
	{word: regexp.MustCompile(`([oO]pen|[cC]losed)([- ]m|M)odel`), instead: "open loop, closed loop"},
	{word: regexp.MustCompile(`[开闭]环模型`), instead: "开环、闭环"},
}

// readTexts reads the files with texts that a user or a contributor reads, by path from the root.
var readTexts = sync.OnceValues(func() (map[string]string, error) {
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		base := filepath.Base(file)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if len(base) > 2 && base[0] == '.' || slices.Contains([]string{"bin", "out", "node_modules"}, base) {
				return fs.SkipDir
			}
			return nil
		case !slices.Contains([]string{".md", ".go", ".js", ".html", ".mmd", ".tmpl"}, filepath.Ext(base)) &&
			base != "zh.json":
			return nil
		}
		text, err := os.ReadFile(file)
		texts[strings.TrimPrefix(filepath.ToSlash(file), root+"/")] = string(text)
		return err
	})
	return texts, err
})

// One word per idea: no text uses a word that the glossary replaces.
func TestGlossaryIsKept(t *testing.T) {
	read, err := readTexts()
	testkit.Must(t, err)
	texts := maps.Clone(read)
	for _, name := range []string{"docs/glossary.md", "docs/glossary.zh.md", "docs/words_test.go"} { // they may
		delete(texts, name)
	}
	for _, must := range []string{"README.zh.md", "docs/write-ups.zh.md", "docs/modes/watchdog.zh.md",
		"console/web/zh.json", "say/text/zh.json"} {
		if texts[must] == "" {
			t.Errorf("%s was not read: the test does not see what it should", must)
		}
	}
	glossary := doctest.Read(t, "docs/glossary.md") + doctest.Read(t, "docs/glossary.zh.md")
	for _, r := range replaced {
		for name, text := range texts {
			if found := r.word.FindString(text); found != "" && !slices.Contains(r.only, name) {
				t.Errorf("%s says %q; the glossary's word is %s", name, strings.TrimSpace(found), r.instead)
			}
		}
		for _, name := range r.only {
			if !r.word.MatchString(texts[name]) {
				t.Errorf("%s does not use %v: it needs no permission", name, r.word)
			}
		}
	}
	for _, word := range []string{"协同遗漏", "开环", "闭环", "栅栏令牌", "幂等键", "租约", "续期", "丢失更新", "超卖", "锁交接", "每秒成交", "应答", "判定",
		"压测工具", "内嵌", "主从切换", "从节点"} {
		if !strings.Contains(glossary, word) {
			t.Errorf("docs/glossary.zh.md does not explain %s", word)
		}
	}
}
