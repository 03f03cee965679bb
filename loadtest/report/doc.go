// Package report writes a comparison of package loadtest: for people ([WriteTable], [WriteText], [WriteMarkdown], in English or Chinese), and
// for programs ([WriteJSON], [WriteCSV], [WriteBench], [WriteHistory]). Start reading at [WriteTable].
package report
