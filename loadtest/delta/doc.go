// Package delta compares two load tests of the same plan: for each mode and figure it gives the difference, with a confidence interval
// that assumes nothing about the distribution. Start at [Of].
package delta
