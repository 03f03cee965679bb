// Until lets a test wait for a condition, in place of a sleep.

package testkit

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Most is how long [Until] waits: long enough for a busy machine.
const Most = time.Minute

// every is the time between two looks.
const every = 2 * time.Millisecond

// Until polls until ok returns true, and fails the test after [Most]; what names the condition, as in "the key is
// gone".
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Most); !ok(); time.Sleep(every) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", Most, what)
		}
	}
}

// NoError polls until try returns nil. After [Most] it fails the test with the last error and with what was waited for,
// as [Until] does.
func NoError(t testing.TB, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(Most); ; time.Sleep(every) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s: %v", Most, what, err)
		}
	}
}

// Must ends the test at an error that the test is not about.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Mustf is [Must] with what was tried.
func Mustf(t testing.TB, err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// Check reports an error that the test is not about, and lets the test go on: another goroutine cannot end it.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Log is what somebody writes while [Until] reads it.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
