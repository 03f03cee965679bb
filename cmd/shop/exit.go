package main

import (
	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/loadtest/compare"
	"lastitem/say/text"
)

// Exit codes of every subcommand, besides those of package cli; exits says what each means. 'with-stack' ends with the
// code of its COMMAND.
const (
	exitInconclusive = compare.ExitUndecided
	exitThreshold    = compare.ExitThreshold
)

// exits is the table of exit codes.
var exits = cli.Exits{
	{cli.ExitOK, text.Of("all is as it must be")},
	{cli.ExitFailed, text.Of("an error; or a claim, a product or a service is not as it must be")},
	{cli.ExitUsage, text.Of("the command line or a setting is wrong")},
	{exitInconclusive, text.Of("nothing can be said: data is missing, or nothing could have failed (vacuous)")},
	{exitThreshold, text.Of("a --threshold was crossed")},
	{cli.ExitInterrupted, text.Of("interrupted; the result so far has been printed")},
}

// finish prints the error of a command and returns the exit code.
func finish(cmd *cobra.Command, err error, lang string) int {
	return cli.Finish(cmd, err, lang, "loadtest")
}

// modesByFlag says so to somebody who names modes as arguments of a command that takes none, but has --mode.
func modesByFlag(cmd *cobra.Command) {
	takes := cmd.Args
	if cmd.Flags().Lookup("mode") == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := takes(cmd, args)
		if err != nil && len(args) > 0 && takes(cmd, nil) == nil && takes(cmd, args[:1]) != nil {
			return text.Of("unexpected argument %q: modes are chosen with --mode").Errorf(args[0])
		}
		return err
	}
}
