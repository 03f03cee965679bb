package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/internal/api"
	"lastitem/internal/stock"
	"lastitem/internal/stock/pages"
)

// choosePages are the page that leads to a mode, by language.
var choosePages = []string{"docs/choose.md", "docs/choose.zh.md"}

// tablesOf reads the tables of a page, each a list of rows without its head.
func tablesOf(t *testing.T, name string) (tables [][][]string) {
	t.Helper()
	inside := false
	for line := range strings.Lines(readDoc(t, name)) {
		cells := cellsOf(line)
		switch {
		case cells == nil:
			inside = false
		case strings.HasPrefix(cells[0], "---"):
			tables, inside = append(tables, nil), true
		case inside:
			tables[len(tables)-1] = append(tables[len(tables)-1], cells)
		}
	}
	return tables
}

// TestChoose: at most twelve questions, each of which is reached and leads on; each answer is one mode with one command, and the
// claims beside it are those of the mode.
func TestChoose(t *testing.T) {
	for _, name := range choosePages {
		tables := tablesOf(t, name)
		if len(tables) != 3 {
			t.Fatalf("%s has %d tables, want questions, answers and symptoms", name, len(tables))
		}
		leaves := leavesOf(t, name, tables[0])
		var answered []string
		for _, row := range tables[1] {
			answered = append(answered, wantAnswer(t, name, row))
		}
		slices.Sort(leaves)
		slices.Sort(answered)
		if !slices.Equal(leaves, answered) {
			t.Errorf("%s: the questions lead to %v, and the answers are %v", name, leaves, answered)
		}
		paragraph := strings.SplitN(readDoc(t, name), "\n\n", 3)[1]
		if m := modeMention.FindStringSubmatch(paragraph); len(m) != 2 || !slices.Contains(leaves, m[1]) {
			t.Errorf("%s: want the default answer in its first line, a mode that the questions lead to: %s", name, paragraph)
		}
	}
}

// leavesOf follows the questions, and returns the modes that they lead to.
func leavesOf(t *testing.T, name string, questions [][]string) (leaves []string) {
	t.Helper()
	if len(questions) > 12 {
		t.Errorf("%s: %d questions, want at most 12", name, len(questions))
	}
	reached := map[int]bool{1: true}
	for i, row := range questions {
		if row[0] != strconv.Itoa(i+1) || len(row) != 4 {
			t.Errorf("%s: %v: want question %d with yes and no", name, row, i+1)
			continue
		}
		for _, to := range row[2:] {
			if next, ok := strings.CutPrefix(to, "→ "); ok {
				n, err := strconv.Atoi(next)
				if err != nil || n <= i+1 || n > len(questions) {
					t.Errorf("%s: question %d leads to %s, want a later question", name, i+1, to)
				}
				reached[n] = true
			} else if mode := modeLink.FindStringSubmatch(to); len(mode) == 3 && knownModes()[mode[1]] {
				leaves = append(leaves, mode[1])
			} else {
				t.Errorf("%s: question %d leads to %s, want a question or a mode", name, i+1, to)
			}
		}
	}
	for i := range questions {
		if !reached[i+1] {
			t.Errorf("%s: no answer leads to question %d", name, i+1)
		}
	}
	slices.Sort(leaves)
	return slices.Compact(leaves)
}

// wantAnswer checks an answer: its claims are the mode's, and its command runs the mode. It returns the mode.
func wantAnswer(t *testing.T, name string, row []string) string {
	t.Helper()
	mode := modeLink.FindStringSubmatch(row[0])
	if len(mode) != 3 || len(row) != 4+len(stock.Hazards) {
		t.Errorf("%s: %v: want a mode, a store, its claims, words and a command", name, row)
		return ""
	}
	at := slices.IndexFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == mode[1] })
	if at < 0 || !slices.Equal(stock.Modes()[at].Claims[stock.Store(row[1])].Row(), row[2:2+len(stock.Hazards)]) {
		t.Errorf("%s: %v: these are not the claims of the mode", name, row)
	}
	command := strings.Trim(row[len(row)-1], "`")
	wantCommand(t, name, command)
	if m := modeIn.FindStringSubmatch(command); len(m) != 2 || m[1] != mode[1] {
		t.Errorf("%s: %s does not run %s", name, command, mode[1])
	}
	return mode[1]
}

// TestSymptoms: every symptom has a mode that shows it, a command and a mode to take instead, the same in both languages.
func TestSymptoms(t *testing.T) {
	var before [][]string
	for _, name := range choosePages {
		var facts [][]string
		for _, row := range tablesOf(t, name)[2] {
			if len(row) != 5 || slices.Contains(row, "") {
				t.Errorf("%s: %v: want five full cells", name, row)
				continue
			}
			shows, cure := modeLink.FindStringSubmatch(row[2]), modeLink.FindStringSubmatch(row[4])
			if len(shows) != 3 || len(cure) != 3 || !knownModes()[shows[1]] || !knownModes()[cure[1]] {
				t.Errorf("%s: %v: want two modes", name, row)
				continue
			}
			command := strings.Trim(row[3], "`")
			wantCommand(t, name, command)
			facts = append(facts, []string{shows[1], command, cure[1]})
		}
		if before != nil && !slices.EqualFunc(before, facts, slices.Equal) {
			t.Errorf("%s: the languages differ in modes or commands", name)
		}
		before = facts
		for _, words := range []string{"1205", "1213", "1062", "not locked by current thread"} {
			if !strings.Contains(readDoc(t, name), words) {
				t.Errorf("%s: a reader who searches for %q finds nothing", name, words)
			}
		}
	}
}

// TestMeanings: every hazard and every letter of the claims is explained, on each page with claims.
func TestMeanings(t *testing.T) {
	for i, m := range api.Hazards {
		if m.Word != stock.Hazards[i] {
			t.Errorf("meaning %d is of %q, want %q", i, m.Word, stock.Hazards[i])
		}
	}
	words := map[string]bool{}
	for _, m := range append(slices.Clone(api.Hazards), api.Letters...) {
		words[m.Word] = true
		for _, text := range []api.Text{m.Short, m.Is, m.Story} {
			if text.En == "" || text.Zh == "" {
				t.Errorf("%q: want all texts in both languages: %+v", m.Word, text)
			}
		}
	}
	for _, m := range stock.Modes() {
		for store, claims := range m.Claims {
			for i, outcomes := range claims.Row() {
				for _, letter := range outcomes {
					if !words[string(letter)] {
						t.Errorf("%s on %s: %s: %q is not explained", m.Name, store, stock.Hazards[i], letter)
					}
				}
			}
		}
	}
	for lang := range readmes {
		files := []string{"docs/" + pages.Name("modes", lang), "docs/" + pages.Name("matrix", lang)}
		for _, m := range stock.Modes() {
			if len(m.Stores) > 0 {
				files = append(files, "docs/modes/"+pages.Name(m.Name, lang))
			}
		}
		for _, page := range files {
			if !strings.Contains(readDoc(t, page), api.Definitions(lang)) {
				t.Errorf("%s does not explain its hazards and letters", page)
			}
		}
	}
}

// TestGlossary holds the hazards and letters of the glossary against their source.
func TestGlossary(t *testing.T) {
	for lang := range readmes {
		between(t, "docs/"+pages.Name("glossary", lang), "<!-- meanings:begin -->\n", "<!-- meanings:end -->\n", api.Definitions(lang))
	}
}
