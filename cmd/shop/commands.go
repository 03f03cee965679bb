package main

import "github.com/spf13/cobra"

// commands lists the subcommands, the ones a user meets first at the top; a file each.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newDemo(),
		newUp(),
		newServe(),
		newMigrate(),
		newLoadtest(),
		newAudit(),
		newLab(),
		newModes(),
		newSettings(),
		newTrace(),
		newStock(),
		newVersion(),
		newKeeper(),
		newGuestLeave(),
		newEmbeddedRedis(),
		newEmbeddedKafka(),
		newBalance(),
		newRolling(),
		newWithStack(),
		newProbe(),
	}
}
