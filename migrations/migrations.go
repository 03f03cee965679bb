// Package migrations holds the numbered SQL that makes and changes the tables, one folder per dialect.
//
// A file is applied once, in the order of its number, and neither edited nor renamed after it has been released: a
// change is a new file.
package migrations

import "embed"

// Files holds mysql/*.sql and sqlite/*.sql. A statement ends with a semicolon at the end of a line.
//
//go:embed mysql/*.sql sqlite/*.sql
var Files embed.FS
