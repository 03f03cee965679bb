package main

import "github.com/spf13/cobra"

// group is a section of 'shop --help'.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups lists the commands for users, the ones that they meet first at the top; a file each.
func groups(lang string) []group {
	return []group{
		{both("Try it", "先试试").In(lang), []*cobra.Command{newPlay(lang), newDemo(lang), newUp(lang), newModes(lang), newTrace(lang)}},
		{both("Judge it", "检验").In(lang), []*cobra.Command{newLoadtest(lang), newCompare(lang), newWriteUps(lang), newAudit(lang), newLab(lang)}},
		{both("Run it", "运行").In(lang), []*cobra.Command{
			newServe(lang), newMigrate(lang), newStock(lang), newRolling(lang), newConsoleCommand(lang), newSettings(lang), newVersion(lang),
			newCompletion(lang),
		}},
	}
}

// hidden lists the commands that the others, the tests and the make targets start.
func hidden() []*cobra.Command {
	return []*cobra.Command{
		newKeeper(), newGuestLeave(), newEmbeddedRedis(), newEmbeddedKafka(), newBalance(), newWithStack(), newProbe(),
	}
}
