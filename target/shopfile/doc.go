// Package shopfile reads shop.yaml: the description of somebody else's service in one file. [Read] returns a [File]:
// the fields that are flags of 'shop loadtest' and 'shop lab' too, as these flags, and the steps of a purchase, for
// which there are none. An error names the line, the field, and what is expected there.
package shopfile
