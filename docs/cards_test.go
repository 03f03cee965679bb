package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lastitem/docs"
	"lastitem/testkit/doctest"
)

// cardText is what the cards say around the questions.
var cardText = map[string]struct{ head, wrong, seen string }{
	"en": {"# Interview cards\n\nThe [interview questions](interview.md) to print, without commands: the short answer, " +
		"the usual wrong one where there is one, and the line of the output that shows it. · [中文](interview-cards.zh.md)\n",
		"*Wrong:* ", "*Seen:* "},
	"zh": {"# 面试答题卡\n\n[面试题](interview.zh.md)的打印版，没有命令：简短的回答，常见的错误答案（如果有），以及输出里能说明问题的那一行。 · " +
		"[English](interview-cards.md)\n", "*错误答案：*", "*看到：*"},
}

var (
	answered = regexp.MustCompile(`(?s)\n\*\*(?:In 30 seconds:|30 秒回答|In short:|一句话)\*\*：? ?(.*?)\n\n`)
	wrongly  = regexp.MustCompile(`(?s)\n\*\*(?:Often answered, and wrong:|常见错误答案)\*\*：? ?(.*?)\n\n`)
	shows    = regexp.MustCompile(`(?m)^=> (.*)$`)
	linked   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// TestInterviewCards: the cards are what the interview's page says; -update writes them.
func TestInterviewCards(t *testing.T) {
	for _, lang := range langs {
		said, cards := cardText[lang], ""
		for _, q := range strings.Split(doctest.Read(t, "docs/"+docs.Name("interview", lang)), "\n### ")[1:] {
			title, _, _ := strings.Cut(q, "\n")
			short := answered.FindStringSubmatch(q)
			if short == nil {
				t.Fatalf("%s: %s has no short answer", lang, title)
			}
			cards += fmt.Sprintf("\n**%s** %s\n", title, card(lang, short[1]))
			if wrong := wrongly.FindStringSubmatch(q); wrong != nil {
				cards += "\n" + said.wrong + card(lang, wrong[1]) + "\n"
			}
			if all := shows.FindAllStringSubmatch(q, -1); len(all) > 0 {
				cards += "\n" + said.seen + "`" + all[len(all)-1][1] + "`\n"
			}
		}
		rewrite(t, "docs/"+docs.Name("interview-cards", lang), said.head+cards)
	}
}

// card is a paragraph on one line, and its links without where they lead: paper has none.
func card(lang, text string) string {
	between := " "
	if lang == "zh" {
		between = ""
	}
	return linked.ReplaceAllString(strings.ReplaceAll(text, "\n", between), "$1")
}
