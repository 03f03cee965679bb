package report_test

import (
	"testing"

	"lastitem/say/report"
	"lastitem/testkit"
)

func TestWrap(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one two three", []string{"one two", "three"}},
		{"exactly8 x", []string{"exactly8", "x"}},
		{"muchlongerthaneight is whole", []string{"muchlongerthaneight", "is whole"}},
		{"超卖，丢失；a b", []string{"超卖，", "丢失；a", "b"}},
		{report.Unbroken("a b c d e") + "; f", []string{"a b c d e;", "f"}},
		{report.Unbroken("甲，乙：丙") + "；丁，戊", []string{"甲，乙：丙；", "丁，戊"}},
	}
	for _, tt := range tests {
		testkit.Same(t, report.Wrap(tt.text, 8), tt.want, "columns.Wrap(%q, 8)", tt.text)
	}
}

func TestWidth(t *testing.T) {
	tests := map[string]int{"": 0, "abc": 3, "丢失更新": 8, "p50 毫秒": 8, "e\u0301": 1, "✓–…·▁": 5, "，": 2}
	for s, want := range tests {
		testkit.Is(t, report.Width(s), want, "columns.Width(%q)", s)
	}
}

func TestSpark(t *testing.T) {
	for want, values := range map[string][]float64{
		"":         nil,
		"··":       {0, -1},
		"▁▄█·█":    {0.1, 0.45, 1, 0, 0.9},
		"▁▂▃▄▅▆▇█": {1, 10, 20, 30, 40, 50, 60, 70},
	} {
		testkit.Is(t, report.Spark(values), want, "columns.Spark(%v)", values)
	}
}
