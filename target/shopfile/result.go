package shopfile

import (
	"lastitem/target"
)

// File is a description.
type File struct {
	Path     string
	Settings []Setting
	// Products are the names for {{product}}; nil = the numbers.
	Products []string
	// Arrange and Buy are the steps of a purchase, Session the headers of every step, "Name: value", and Then asks for a
	// promised outcome. Buy is nil if the flags say all of it.
	Arrange, Buy []target.Step
	Session      []string
	Then         *target.Then
	// Cancel and Ship end an order; nil = there are none.
	Cancel, Ship *target.Step
	// Plain says that the flags say all of Buy, which has its step because there is a Cancel.
	Plain bool
	// Order is where an answer names the order, if no flag can say it.
	Order target.Save
	// Sold, Refused and Declined are the expressions for the header Location, for which there are no flags.
	Sold, Refused, Declined string
	// Flagless are the fields that no flag can say, each with its line.
	Flagless []string
}

// Setting is a field that is also a flag.
type Setting struct {
	Flag, Value string
	Field       string
	Line        int
}
