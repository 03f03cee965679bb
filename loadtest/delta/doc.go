// Package delta says how two load tests of the same plan differ: for each mode and figure, the difference with a confidence interval that
// assumes nothing about the distribution. Start at [Of].
package delta
