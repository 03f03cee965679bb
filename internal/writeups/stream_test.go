package writeups_test

import "testing"

// A group that begins at $ never delivers what was won before its first consumer started.
func TestGroupFromTheEnd(t *testing.T) { play(t) }

// A consumer's name belongs to one process: whoever has it too is given the same pending entries.
func TestOneConsumerNameTwice(t *testing.T) { play(t) }

// DELCONSUMER throws away what the consumer has pending, also what it was given after the look.
func TestDelConsumerDropsWhatIsPending(t *testing.T) { play(t) }

// MAXLEN drops what nobody has read, and what was read and is not done.
func TestMaxLenDropsWhatNobodyRead(t *testing.T) { play(t) }

// NOACK is at most once: what a dead consumer had read is lost.
func TestNoAckIsAtMostOnce(t *testing.T) { play(t) }

// A unit is given back by two consumers of one ticket.
func TestGivenBackTwice(t *testing.T) { play(t) }

// A count of deliveries rises while the database is away: healthy tickets are given up.
func TestGivenUpByDeliveries(t *testing.T) { play(t) }

// After a failover an entry's id can be another ticket's.
func TestEndByEntryID(t *testing.T) { play(t) }

// A correction of the count that stops at zero forgets the debt.
func TestCorrectionStopsAtZero(t *testing.T) { play(t) }

// An inbox that is asked by SELECT lets two consumers in.
func TestInboxBySelect(t *testing.T) { play(t) }

// A consumer that ignores how many rows its UPDATE took sells what is not there.
func TestUpdateThatTookNothing(t *testing.T) { play(t) }

// A relay that goes on after the last id skips what commits late.
func TestOutboxByLastID(t *testing.T) { play(t) }
