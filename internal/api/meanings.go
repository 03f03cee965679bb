package api

import "strings"

// A Meaning explains a word of the claims in both languages. The tables of the documents, their legends and the glossary all show it
// from here.
type Meaning struct {
	Word  string // as the tables show it
	Zh    string // what Chinese texts call it, such as the console; "" = as Word
	Short Text   // for a cell or a legend, without a full stop
	Is    Text   // what it is, in one line, or a few where a limit must be told
	Story Text   // one small case
}

// Hazards explains the columns of the claims tables, in their order.
var Hazards = []Meaning{
	{
		string(Threads), "多线程", Text{"concurrent requests on one replica", "单副本并发"},
		Text{"Requests run at the same time in one process.", "同一个进程里有请求同时执行。"},
		Text{"A and B both read 1, both write 0, and both get an order.", "A 和 B 都读到 1，都写回 0，两人都拿到订单。"},
	},
	{
		string(Replicas), "多副本", Text{"concurrent requests on several replicas", "多副本并发"},
		Text{"Requests run at the same time in several processes behind a load balancer.", "负载均衡后面有几个进程，请求同时执行。"},
		Text{"Three replicas have three mutexes: A, B and C each hold one, and all three sell unit 88.", "三个副本三把互斥锁，A、B、C 各拿一把，同时卖出第 88 件。"},
	},
	{
		string(Slow), "变慢", Text{"the work between two commands outlives the lock's TTL", "两条命令之间的业务比锁的 TTL 还长"},
		Text{
			"The work between two commands takes longer than the lock's TTL, and the process lives. A command whose answer takes longer than the client " +
				"waits (three seconds with Redis) is something else, a lost reply: its outcome is unknown, and it leaks units in the modes that write " +
				"the count and the order with two commands.",
			"进程活着，但两条命令之间的业务比锁的 TTL 还长。如果是某条命令的应答迟迟不来，超过了客户端的等待上限（Redis 是 3 秒），那算应答丢失，" +
				"结果未知；库存和订单分两条命令写的模式会因此少卖。",
		},
		Text{"The TTL is 500 ms, the work takes 800 ms: for 300 ms two clients are inside.", "TTL 500 毫秒，业务 800 毫秒：有 300 毫秒是两个人在临界区里。"},
	},
	{
		string(Late), "迟释放", Text{"the holder releases after a rival has acquired the lock", "锁已被别人拿到，原持有者才来释放（锁误删）"},
		Text{
			"The holder has finished and its lease has expired; it releases only after a rival has acquired the lock. No mode is broken here first: " +
				"every mode that this breaks was already broken by `slow`.",
			"持有者干完了，租约已过期，锁到了别人手里，这时它才来释放（误删）。没有模式首先栽在这里：会误删的，在 `slow` 就已经坏了。",
		},
		Text{"A's late DEL deletes B's lock, and C enters while B works.", "A 迟到的 DEL 删掉了 B 的锁，B 还没干完 C 就进来了。"},
	},
	{
		string(Pause), "停顿", Text{"the holder is stopped for longer than the TTL, then goes on", "持有者停顿超过 TTL 后继续执行"},
		Text{
			"The holder's whole process is stopped inside the section for longer than its TTL or session, its watchdog too; then it wakes up and goes on.",
			"持有者整个进程在临界区里停住，超过 TTL（或会话），看门狗也停了；醒来后继续执行。",
		},
		Text{"A garbage collection of 15 s: B has sold the unit, and the first thing that A does on waking is its write.", "GC 停了 15 秒：B 已经卖掉这件，A 醒来做的第一件事就是写。"},
	},
	{
		string(Crash), "宕机", Text{"the holder is killed at any step", "持有者在任意一步被 kill"},
		Text{
			"The holder is killed at any of its commands, and sends nothing more. Whether others are stuck is decided only after every lock and " +
				"session of the holder must have ended (with Consul: twice the session's TTL plus the lock-delay).",
			"持有者在任意一条命令处被 kill，没发出去的命令不会再发。是否“卡死”，要等持有者的锁和会话必定都已结束（Consul 是两倍会话 TTL 再加 lock-delay）之后再判定。",
		},
		Text{"kill -9 after SETNX and before EXPIRE: the key stays for ever.", "SETNX 之后、EXPIRE 之前 kill -9：这个 key 永远在。"},
	},
	{
		string(Failover), "主从切换", Text{"the Redis master dies before it has replicated, and a replica is promoted", "Redis 主节点来不及复制就宕机，从节点被提升"},
		Text{
			"A Redis master dies before it has replicated everything, and its replica is promoted. The master is the one that holds lock and stock; for " +
				"`redlock`, one of the nodes that granted the lock.",
			"Redis 主节点来不及复制就宕机，从节点被提升。指的是锁和库存所在的 Redis；`redlock` 则是同意加锁的节点之一。",
		},
		Text{"The promoted replica has never heard of A's lock, and grants it to B.", "新主节点没见过 A 的锁，于是又给了 B。"},
	},
	{
		string(Retry), "重试", Text{"the client repeats a request with the same key", "客户端用同一个幂等键重复请求"},
		Text{"The client gets no answer, and repeats its request with the same idempotency key.", "客户端没等到应答，用同一个幂等键重发请求。"},
		Text{"The buyer's phone loses its connection, the app sends the order again, and two units are gone.", "买家手机断网，App 重发了一次，扣了两件。"},
	},
	{
		string(LateWrite), "迟到写", Text{"a write, or its `COMMIT`, arrives after its sender gave up or died", "写命令（或 `COMMIT`）在发送方放弃或宕机之后才到"},
		Text{
			"The write of the stock, or its `COMMIT`, is still on its way when its sender gives up or dies, and arrives later. A lock does not help: by " +
				"then it has been released or has expired. A write does help if its condition is checked where the data is.",
			"库存的写命令（或 `COMMIT`）还在路上，发送方就放弃了或者宕机了，之后它才到。锁帮不上忙：那时锁已经释放或过期。能挡住它的只有条件写：校验和写入在数据那一侧一步完成。",
		},
		Text{"A's UPDATE waits in a router; B sells the last unit; then A's UPDATE arrives and puts the count back.", "A 的 UPDATE 堵在路上，B 卖掉最后一件，随后 A 的 UPDATE 到达，把库存改了回去。"},
	},
}

// Letters explains what stands in the cells of the claims tables.
var Letters = []Meaning{
	{".", "", Text{"exact", "精确"}, Text{"Every unit is sold once, and nothing is lost.", "每件恰好卖一次，一件不多，一件不少。"}, Text{"500 in stock, 750 buyers: 500 orders, 0 left.", "库存 500，750 人抢：500 单，剩 0。"}},
	{"O", "", Text{"oversold or lost update", "超卖或丢失更新"}, Text{"More units are ordered than there were, or a write covers another's, so that sold units are sold again.", "卖出的比库存多；或者一次写盖掉了另一次写，已卖出的又能再卖一遍。"}, Text{"5 buyers, stock 100: 5 orders, and 99 left instead of 95.", "5 个人买，库存 100：5 个订单，却剩 99 而不是 95。"}},
	{"L", "", Text{"leaked: stock gone without an order", "少卖（泄漏）：库存已扣，没有订单"}, Text{"Units are taken, and nobody has an order for them.", "库存扣了，却没有任何人的订单。"}, Text{"The process dies between the DECR and the order: one unit can never be sold.", "DECR 之后、写订单之前进程死了：这件再也卖不出去。"}},
	{"D", "", Text{"double charge", "重复扣减"}, Text{"One request has two orders.", "同一个请求有两个订单。"}, Text{"The answer was lost, the client asked again, and pays twice.", "应答丢了，客户端又请求一次，付了两次钱。"}},
	{"X", "", Text{"stuck", "卡死"}, Text{"Nobody can buy any more, even after everything that expires has expired.", "该过期的都过期之后，仍然谁也买不了。"}, Text{"A lock without a TTL, whose holder was killed.", "没有 TTL 的锁，持有者被 kill 了。"}},
	{"A", "", Text{"acknowledged order lost", "已确认的订单丢失"}, Text{"A buyer was told “sold”, and there is no such order.", "已经告诉买家“买到了”，订单却不存在。"}, Text{"Redis failed over, and the last orders went with the old master.", "Redis 主从切换，最后几单随旧主一起没了。"}},
	{"–", "", Text{"cannot happen", "不会发生"}, Text{"The hazard does not exist for this mode.", "这个场景对该模式不存在。"}, Text{"A mode without a lock has none that expires.", "没有锁的模式，也就没有锁会过期。"}},
	{"", "", Text{"blank: an earlier hazard has broken it already", "空白：在更早的场景已经出错"}, Text{"An earlier column has broken the mode; later ones are not tried.", "前面的列已经打破了这个模式，后面的不再试。"}, Text{"What two concurrent requests break needs no failover.", "两个并发请求就能打破的，用不着等主从切换。"}},
}

// Legend is the line below a claims table, Markdown, without the full stop at its end.
func Legend(lang string) string {
	var parts []string
	for _, l := range Letters {
		text := l.Short.In(lang)
		if l.Word != "" {
			text = "`" + l.Word + "` " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " · ")
}

// Definitions is a Markdown list that explains every hazard and letter, each with its story.
func Definitions(lang string) string {
	var b strings.Builder
	example := map[string]string{"en": "For example: ", "zh": "例："}[lang]
	for _, m := range append(append([]Meaning{}, Hazards...), Letters...) {
		word := "`" + m.Word + "`"
		if m.Word == "" {
			word = map[string]string{"en": "blank", "zh": "空白"}[lang]
		}
		if lang == "zh" && m.Zh != "" {
			word += "（" + m.Zh + "）"
		}
		gap := map[string]string{"en": " ", "zh": ""}[lang]
		b.WriteString("* " + word + map[string]string{"en": ": ", "zh": "："}[lang] + m.Is.In(lang) + gap + "*" + example + m.Story.In(lang) + "*\n")
	}
	return b.String()
}
