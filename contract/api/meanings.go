package api

import (
	"strings"

	"lastitem/say/text"
)

// A Meaning explains a word of the claims in both languages. The tables of the documents, their legends and the
// glossary all show it from here.
type Meaning struct {
	Word  string    // as the tables show it
	Named text.Text // what texts call it, such as the console; none = as Word
	Short text.Text // for a cell or a legend, without a full stop
	Is    text.Text // what it is, in one line, or a few where a limit must be told
	Story text.Text // one small case
}

// Hazards explains the columns of the claims tables, in their order.
var Hazards = []Meaning{
	{
		string(Threads), text.Of("threads"), text.Of("concurrent requests on one replica"),
		text.Of("Requests run at the same time in one process."),
		text.Of("A and B both read 1, both write 0, and both get an order."),
	},
	{
		string(Replicas), text.Of("replicas"), text.Of("concurrent requests on several replicas"),
		text.Of("Requests run at the same time in several processes behind a load balancer."),
		text.Of("Three replicas have three mutexes: A, B and C each hold one, and all three sell unit 88."),
	},
	{
		string(Slow), text.Of("slow"), text.Of("the work between two commands outlives the lock's TTL"),
		text.Of("The work between two commands takes longer than the lock's TTL, and the process lives. A command whose " +
			"answer takes longer than the client " +
			"waits (three seconds with Redis) is something else, a lost reply: its outcome is unknown, and it leaks units in " +
			"the modes that write " +
			"the count and the order with two commands."),
		text.Of("The TTL is 500 ms, the work takes 800 ms: for 300 ms two clients are inside."),
	},
	{
		string(Late), text.Of("late"), text.Of("the holder releases after a rival has acquired the lock"),
		text.Of("The holder has finished and its lease has expired; it releases only after a rival has acquired the lock. " +
			"No mode is broken here first: " +
			"every mode that this breaks was already broken by `slow`."),
		text.Of("A's late DEL deletes B's lock, and C enters while B works."),
	},
	{
		string(Pause), text.Of("pause"), text.Of("the holder is stopped for longer than the TTL, then goes on"),
		text.Of("The holder's whole process is stopped inside the section for longer than its TTL or session, its watchdog " +
			"too; then it wakes up and goes on."),
		text.Of("A garbage collection of 15 s: B has sold the unit, and the first thing that A does on waking is its write."),
	},
	{
		string(Crash), text.Of("crash"), text.Of("the holder is killed at any step"),
		text.Of("The holder is killed at any of its commands, and sends nothing more. Whether others are stuck is decided " +
			"only after every lock and " +
			"session of the holder must have ended (with Consul: twice the session's TTL plus the lock-delay)."),
		text.Of("kill -9 after SETNX and before EXPIRE: the key stays for ever."),
	},
	{
		string(Failover), text.Of("failover"), text.Of("the Redis master dies before it has replicated, and a replica is " +
			"promoted"),
		text.Of("A Redis master dies before it has replicated everything, and its replica is promoted. The master is the " +
			"one that holds lock and stock; for " +
			"`redlock`, one of the nodes that granted the lock."),
		text.Of("The promoted replica has never heard of A's lock, and grants it to B."),
	},
	{
		string(Stale), text.Of("stale"), text.Of("a read outside a transaction is answered by a replica that lags behind"),
		text.Of("A rival has sold and committed. Reads outside a transaction are then answered by a copy of the database " +
			"that lacks that commit, as a read-write splitter before an asynchronous replica answers them. Reads inside a " +
			"transaction and locking reads go to the primary. Only modes that read their count in SQL outside a transaction " +
			"meet it."),
		text.Of("B sells the last unit and releases the lock. A takes the lock, reads 1 from the replica, and sells it too."),
	},
	{
		string(Retry), text.Of("retry"), text.Of("the client repeats a request with the same key"),
		text.Of("The client gets no answer, and repeats its request with the same idempotency key."),
		text.Of("The buyer's phone loses its connection, the app sends the order again, and two units are gone."),
	},
	{
		string(Redelivery), text.Of("redelivery"), text.Of("a queue delivers what it has delivered before"),
		text.Of("A consumer is killed or slow at any step of its turn, and another one is given what it was given; or an " +
			"order that the database refuses is given up while its last try is still under way. Only modes that write " +
			"orders from a queue have consumers."),
		text.Of("The consumer dies between COMMIT and acknowledgement: the queue delivers the order again, and the buyer " +
			"has two."),
	},
	{
		string(LateWrite), text.Of("late-write"), text.Of("a write, or its `COMMIT`, arrives after its sender gave up or " +
			"died"),
		text.Of("The write of the stock, or its `COMMIT`, is still on its way when its sender gives up or dies, and " +
			"arrives later. A lock does not help: by " +
			"then it has been released or has expired. A write does help if its condition is checked where the data is."),
		text.Of("A's UPDATE waits in a router; B sells the last unit; then A's UPDATE arrives and puts the count back."),
	},
	{
		string(Expiry), text.Of("expiry"), text.Of("a hold's deadline passes while its payment is under way"),
		text.Of("The deadline of a reservation passes while its payment, its cancel or a sweep is under way, or two sweeps " +
			"meet. Only modes that hold units have deadlines."),
		text.Of("The buyer pays at the last moment, and the sweep gives his unit back: the next buyer pays for it too."),
	},
}

// Letters explains what stands in the cells of the claims tables.
var Letters = []Meaning{
	{".", text.Text{}, text.Of("exact"), text.Of("Every unit is sold once, and nothing is lost."),
		text.Of("500 in stock, 750 buyers: 500 orders, 0 left.")},
	{"O", text.Text{}, text.Of("oversold or lost update"), text.Of("More units are ordered than there were, or a write " +
		"covers another's, so that sold units are sold again."), text.Of("5 buyers, stock 100: 5 orders, and 99 left " +
		"instead of 95.")},
	{"L", text.Text{}, text.Of("leaked: stock gone without an order"),
		text.Of("Units are taken, and nobody has an order for them."),
		text.Of("The process dies between the DECR and the order: one unit can never be sold.")},
	{"D", text.Text{}, text.Of("double charge"), text.Of("One request has two orders."),
		text.Of("The answer was lost, the client asked again, and pays twice.")},
	{"X", text.Text{}, text.Of("stuck"), text.Of("Nobody can buy any more, even after everything that expires has " +
		"expired."), text.Of("A lock without a TTL, whose holder was killed.")},
	{"A", text.Text{}, text.Of("acknowledged order lost"), text.Of("A buyer was told “sold”, and there is no such order."),
		text.Of("Redis failed over, and the last orders went with the old master.")},
	{"B", text.Text{}, text.Of("a buyer has more than the limit"),
		text.Of("A buyer holds or has bought more units of a product than its limit per buyer allows."),
		text.Of("One per buyer; a double click, and neither request sees the order of the other.")},
	{"U", text.Text{}, text.Of("undersold: refused though a unit was free"),
		text.Of("A request was refused as sold out although a unit was free from its call to its answer."),
		text.Of("Nobody ends the holds whose buyers have left: the shop is sold out, and full.")},
	{"–", text.Text{}, text.Of("cannot happen"), text.Of("The hazard does not exist for this mode."),
		text.Of("A mode without a lock has none that expires.")},
	{"", text.Text{}, text.Of("blank: an earlier hazard has broken it already"),
		text.Of("An earlier column has broken the mode; later ones are not tried."),
		text.Of("What two concurrent requests break needs no failover.")},
}

// Legend is the line below a claims table, Markdown, without the full stop at its end.
func Legend(lang string) string {
	var parts []string
	for _, l := range Letters {
		said := l.Short.In(lang)
		if l.Word != "" {
			said = "`" + l.Word + "` " + said
		}
		parts = append(parts, said)
	}
	return strings.Join(parts, " · ")
}

// Definitions is a Markdown list that explains every hazard and letter, each with its story.
func Definitions(lang string) string {
	var b strings.Builder
	example := text.Of("For example: ").In(lang)
	for _, m := range append(append([]Meaning{}, Hazards...), Letters...) {
		word := "`" + m.Word + "`"
		if m.Word == "" {
			word = text.Of("blank").In(lang)
		}
		if lang == "zh" && m.Named.Zh != "" {
			word += text.Of(" (%s)").With(m.Named).In(lang)
		}
		gap := map[string]string{"en": " ", "zh": ""}[lang]
		b.WriteString("* " + word + text.Of(": ").In(lang) + m.Is.In(lang) + gap + "*" + example + m.Story.In(lang) + "*\n")
	}
	return b.String()
}
