package tell

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab"
	"lastitem/faultlab/rig"
)

// Tale is the recorded story of a committed witness. Another run of the same schedule has other times and tokens.
type Tale struct {
	Schedule string       `json:"schedule"` // Schedule.String() of the witness
	Outcome  api.Outcomes `json:"outcome"`
	Why      string       `json:"why"`
	// Initial, Left and Ordered are the ledger's figures at the end, in units.
	Initial int64  `json:"initial"`
	Left    int64  `json:"left"`
	Ordered int64  `json:"ordered"`
	Steps   []Step `json:"steps"`
}

// Step is a line of a tale. In JSON it is [milliseconds, actor, event, text].
type Step struct {
	At    time.Duration
	Actor string
	Event rig.What // "" = a command; Busy
	Text  string
}

// MarshalJSON writes the step as an array, which is short: a matrix has thousands of steps.
func (s Step) MarshalJSON() ([]byte, error) {
	ms := json.Number(strconv.FormatFloat(float64(s.At.Microseconds()/100)/10, 'f', -1, 64))
	return json.Marshal([]any{ms, s.Actor, s.Event, s.Text})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Step) UnmarshalJSON(said []byte) error {
	var ms float64
	if err := json.Unmarshal(said, &[]any{&ms, &s.Actor, &s.Event, &s.Text}); err != nil {
		return err
	}
	s.At = time.Duration(ms * float64(time.Millisecond))
	return nil
}

//go:embed stories/witnesses.json.gz
var recorded embed.FS

// talesFile is the one file in a directory of stories: a list of tales as JSON, compressed, since commands and times
// repeat.
const talesFile = "witnesses.json.gz"

// Tales has the stories of the committed witnesses.
func Tales() ([]Tale, error) {
	dir, err := fs.Sub(recorded, "stories")
	if err != nil {
		return nil, err
	}
	return ReadTales(dir)
}

// ReadTales reads a directory of stories; one without the file has none.
func ReadTales(dir fs.FS) ([]Tale, error) {
	said, err := unpacked(dir)
	if err != nil || said == nil {
		return nil, err
	}
	var all []Tale
	if err := json.Unmarshal(said, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", talesFile, err)
	}
	return all, nil
}

// unpacked returns the JSON in a directory of stories; nil where there is no file.
func unpacked(dir fs.FS) ([]byte, error) {
	f, err := dir.Open(talesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", talesFile, err)
	}
	said, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", talesFile, err)
	}
	return said, nil
}

// WriteTales writes what ReadTales reads, in the order given. It leaves a file alone that says the same, since
// another Go may compress to other bytes.
func WriteTales(dir string, all []Tale) error {
	said, err := talesJSON(all)
	if err != nil {
		return err
	}
	if old, err := unpacked(os.DirFS(dir)); err == nil && bytes.Equal(old, said) {
		return nil
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(said); err != nil {
		return err
	}
	if err := errors.Join(z.Close(), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, talesFile), packed.Bytes(), 0o644)
}

// talesJSON returns tales as a JSON array, one in each line.
func talesJSON(all []Tale) ([]byte, error) {
	lines := make([]string, len(all))
	for i, t := range all {
		said, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		lines[i] = string(said)
	}
	return []byte("[\n" + strings.Join(lines, ",\n") + "\n]\n"), nil
}

// tale records a schedule that was played.
func tale(p faultlab.Played) Tale {
	t := Tale{Schedule: p.Schedule.String(), Outcome: p.Outcome, Why: p.Why, Initial: p.Story.Initial, Left: p.Story.Left,
		Ordered: p.Story.Ordered}
	for _, l := range folded(p.Story.Lines) {
		t.Steps = append(t.Steps, Step(l))
	}
	return t
}

// Retell adds the stories of schedules that were played to the tales, and returns the tales of the matrix's witnesses,
// in its order. The error names the witnesses that were played but did not show their letters.
func Retell(m faultlab.Matrix, known []Tale, played []faultlab.Played) ([]Tale, error) {
	tales := map[string]Tale{}
	for _, t := range known {
		tales[t.Schedule] = t
	}
	fresh := map[string]faultlab.Played{}
	for _, p := range played {
		fresh[p.Schedule.String()] = p
	}
	var all []Tale
	var errs []error
	for _, w := range m.Witnesses() {
		name := w.Schedule.String()
		if p, there := fresh[name]; there {
			if p.Story == nil || !w.Shows(p.Outcome) {
				errs = append(errs, fmt.Errorf("%s: %s, want %s", name, p.Outcome, w.Letters))
				continue
			}
			tales[name] = tale(p)
		}
		if t, there := tales[name]; there {
			all = append(all, t)
		}
	}
	return all, errors.Join(errs...)
}
