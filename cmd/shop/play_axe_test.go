package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// axeSum is the SHA-256 of axe.min.js of axe-core 4.14.1.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// axePages are the pages that axe-core looks at, and what is there when they have been drawn.
var axePages = map[string]string{
	"#/run":     `.verdict-line, .empty`,
	"#/compare": `.compare tbody tr, .empty`,
	"#/matrix":  `.grid td a`, "#/matrix/setnx/redis/failover/L": `.story-row`, "#/matrix/lease-seq/sql/pause": `.witness .verdict`,
	"#/read/modes/lua-lock": `.prose h1`, "#/read/interview": `.prose h1`, "#/read/console": `.prose h1`,
}

// axeSteps are schedules of the page Step: at the start, with a client that waits, one that is dead and one that is stopped, won, and impossible.
var axeSteps = map[string]string{
	"#/step/unsafe": `.client`, "#/step/before-commit/aaaaaabbbb": `.phase-waiting`, "#/step/lock-out/aakb": `.phase-dead`, "#/step/watchdog/aaasx": `.phase-stopped`,
	"#/step/fencing/aaxbbaaaabbbb": `.verdict`, "#/step/charge-twice/aaaalarah": `.phase-executed`,
}

// axeScript returns a script that defines axe.
func axeScript(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(script); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatal("axe.min.js is not the one that was vendored")
	}
	return string(script) + "\ntrue"
}

// axe returns what axe-core finds wrong with the document as it is, a line for each rule. The document has run the script.
func (b *tab) axe() []string {
	b.t.Helper()
	eval[bool](b, `(() => {
		window.axeFound = null;
		axe.run(document, { resultTypes: ['violations'] }).then((r) => { window.axeFound =
			r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 4).map((n) => n.target.join(' ') + ' ' + n.failureSummary.split('\n')[1]).join(' | ')).join('\n'); });
		return true;
	})()`)
	b.wait(`window.axeFound !== null`)
	return strings.FieldsFunc(eval[string](b, `window.axeFound`), func(r rune) bool { return r == '\n' })
}

// testPlayAxe lets axe-core look at pages in both themes and languages, wide and narrow. It finds nothing.
func testPlayAxe(t *testing.T, b *tab, pages map[string]string) {
	t.Helper()
	eval[bool](b, axeScript(t))
	for i, theme := range []string{"light", "dark"} {
		b.look([]int64{1440, 390}[i], theme)
		eval[bool](b, `document.getElementById('lang').click() ?? true`)
		for page, sign := range pages {
			eval[bool](b, `(() => {
				document.getElementById('main').replaceChildren();
				if (location.hash === '`+page+`') dispatchEvent(new HashChangeEvent('hashchange')); // the last page of the round before
				location.hash = '`+page+`';
				return true;
			})()`)
			b.wait(`document.querySelector('` + sign + `') !== null`)
			for _, line := range b.axe() {
				t.Errorf("%s, %s: %s", page, theme, line)
			}
		}
	}
}
