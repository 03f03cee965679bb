package trace

import (
	"crypto/sha1" //nolint:gosec // Redis names its scripts by it
	"encoding/hex"
	"strings"
	"time"

	"lastitem/stack/wire"
)

// join matches what passed the wires with what the servers saw: the n-th occurrence of a text here is the n-th
// occurrence there, and the commands of a script belong to the call before them. began has no monotonic part.
func join(calls []wire.Call, views []observed, began time.Time) []Step {
	steps := make([]Step, 0, len(calls))
	for _, c := range calls {
		s := Step{
			Server: c.Server, Text: c.Text, Pattern: c.Pattern, Poll: c.Poll, Sent: c.Sent.Sub(began), Took: Unknown,
			Seen: Unknown, Ran: Unknown,
		}
		if !c.Answered.IsZero() {
			s.Took = c.Answered.Round(0).Sub(c.Sent)
		}
		steps = append(steps, s)
	}
	var owner *Step
	for _, v := range views {
		switch {
		case v.script && owner != nil:
			owner.Inside = append(owner.Inside, Step{
				Server: v.server, Text: v.text, Sent: Unknown, Took: Unknown, Seen: v.at.Sub(began), Ran: Unknown,
			})
		case !v.script:
			owner = nil
			for i := range steps {
				s := &steps[i]
				if s.Seen == Unknown && s.Server == v.server && likeness(s.Text) == likeness(v.text) {
					s.Seen, s.Ran, owner = max(0, v.at.Sub(began)), v.ran, s
					break
				}
			}
		}
	}
	return steps
}

// scripts returns the first comment of each script that was sent so far, by the name that Redis gives the script.
func (t *Tracer) scripts() map[string]string {
	about := map[string]string{}
	for _, c := range t.recorder.Between(time.Time{}, time.Now()) {
		var text string
		switch {
		case len(c.Words) > 1 && strings.EqualFold(c.Words[0], "EVAL"):
			text = c.Words[1]
		case len(c.Words) > 2 && strings.EqualFold(c.Words[0], "SCRIPT") && strings.EqualFold(c.Words[1], "LOAD"):
			text = c.Words[2]
		default:
			continue
		}
		sum := sha1.Sum([]byte(text)) //nolint:gosec // not ours to choose
		about[hex.EncodeToString(sum[:])] = firstSentence(text)
	}
	return about
}

// firstSentence returns the comment that a script begins with: its first line, without a sentence that continues on the
// next line.
func firstSentence(script string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
	if end := strings.LastIndex(line, "."); end >= 0 {
		line = line[:end+1]
	}
	return line
}

// explain adds to each script its own first comment.
func (t *Tracer) explain(steps []Step) {
	about := t.scripts()
	for i := range steps {
		if words := strings.Fields(steps[i].Text); len(words) > 1 && strings.EqualFold(words[0], "EVALSHA") {
			steps[i].About = about[words[1]]
		}
	}
}
