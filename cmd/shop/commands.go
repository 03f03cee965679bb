package main

import "github.com/spf13/cobra"

// group is a section of 'shop --help'.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups lists the commands for users, the ones that they meet first at the top; a file each.
func groups() []group {
	return []group{
		{"Try it", []*cobra.Command{newPlay(), newDemo(), newUp(), newModes(), newTrace()}},
		{"Judge it", []*cobra.Command{newLoadtest(), newCompare(), newWriteUps(), newAudit(), newLab()}},
		{"Run it", []*cobra.Command{newServe(), newMigrate(), newStock(), newRolling(), newConsoleCommand(), newSettings(), newVersion()}},
	}
}

// hidden lists the commands that the others, the tests and the make targets start.
func hidden() []*cobra.Command {
	return []*cobra.Command{
		newKeeper(), newGuestLeave(), newEmbeddedRedis(), newEmbeddedKafka(), newBalance(), newWithStack(), newProbe(),
	}
}
