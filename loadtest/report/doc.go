// Package report writes the results of package loadtest: for people ([WriteTable], [WriteText], [WriteMarkdown],
// [WritePage], in English or Chinese), and for programs (encoding/json, [WriteCSV], [WriteBench], [WriteHistory]).
// Start reading at [WriteTable].
package report
