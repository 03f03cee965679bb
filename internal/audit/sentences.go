package audit

import "lastitem/internal/api"

// t is a sentence in both languages; both take the same arguments in the same order.
func t(en, zh string) api.Text { return api.Text{En: en, Zh: zh} }

// Every sentence stands alone in a list, begins in lower case and names its numbers, so that it can be quoted without
// the report. Those about broken rules do not say whose fault it is: the judge knows only what was answered and stored.

// What is missing.
var (
	sayNoLedger     = t("the ledger could not be read", "读不到账本")
	sayNoStore      = t("no store was named, so there is no stock to judge", "没有指明存储，无库存可判")
	sayUnavailable  = t("store %s could not be read: %s", "存储 %s 读取失败：%s")
	sayNoInitial    = t("the ledger does not say how much stock %s held at the start", "账本没有 %s 的初始库存")
	sayNoStock      = t("the ledger does not say how much stock %s holds now", "账本没有 %s 的当前库存")
	sayOtherProduct = t("%d order [row in the ledger is|rows in the ledger are] not of product %d", "账本中有 %d 条订单不属于商品 %d")
	sayOtherMode    = t("%d order [row was|rows were] written by another mode than %s, so the run was not its own", "%d 条订单由 %s 以外的模式写入，这次运行不独立")
	sayStockSet     = t("the stock was set to %d during the run, which had begun with %d: orders of the run were deleted", "运行期间库存被重新设为 %d，而本次运行开始时是 %d：运行中的订单已被删除")
	saySegmentSum   = t("the segments add up to %d, the stock says %d", "各分段合计 %d，库存却是 %d")
	sayNoHistory    = t("a run was to be judged, but its history is not there", "要判定一次运行，却没有请求历史")
	sayForeignOps   = t("%d [request of the history is|requests of the history are] for another product", "历史中有 %d 个请求属于其他商品")
	sayEmptyHistory = t("the history holds no request for this product", "历史中没有这个商品的请求")
	sayBackwards    = t("%d [answer|answers] of the history came before [its|their] request, so the clock cannot be trusted", "历史中有 %d 个应答早于请求，时钟不可信")
	sayNoReplicas   = t("%d replicas stood behind the address, but neither answers nor orders name theirs", "地址后有 %d 个副本，但应答和订单都没有写明是哪一个")
	sayBeingSold    = t("the product was being sold: at each of %d looks units were gone without an order, from %d to %d of them, which may be sales whose order is not written yet; audit it again when no deduction is in flight", "商品正在售卖：读了 %d 次，每次都有库存已扣而没有订单（%d 到 %d 件），可能是订单尚未写入的成交；请在没有扣减在途时再审计一次")
	sayNoTime       = t("units are gone without an order, which may be sales whose order is not written yet, and there was no time to look again; audit it again", "有库存已扣而没有订单，可能是订单尚未写入的成交，但没有时间再读一次；请再审计一次")
	sayUnknownUnits = t("%d [unit is|units are] gone that only the %d unanswered [request|requests] can have taken, which may be sales or a leak", "有 %d 件只可能被 %d 个无应答请求拿走，是成交还是少卖无从判断")
)

// Why the data could not have shown a failure.
var (
	sayNothingSold    = t("nothing was sold%s", "什么都没卖出%s")
	sayStockLeft      = t("the plan asked for more than the stock, but the stock did not run out: %d of %d units left%s", "计划请求量大于库存，但库存没有售罄：剩 %d，共 %d%s")
	sayNobodyRefused  = t("the plan asked for more than the stock, but no request was refused as sold out%s", "计划请求量大于库存，但没有人得到“售罄”的应答%s")
	sayStopped        = t("the run was stopped before its end", "运行中途被停止")
	sayOneReplica     = t("replica %s served everything, though there were %d", "全部由副本 %s 处理，而副本共有 %d 个")
	sayNoOverlap      = t("no two requests ran at the same time", "没有任何两个请求同时进行")
	sayNoOverlapApart = t("no two requests ran at the same time on different replicas", "没有任何两个请求在不同副本上同时进行")
)

// What was not checked.
var (
	sayLedgerOnly  = t("without a history: whether acknowledged orders are all there, refusals were justified, and orders were asked for", "没有请求历史，未检查：已确认的订单是否都在、拒绝是否有理、订单是否有人请求")
	sayExpired     = t("%d [order is|orders are] older than the retention of idempotency keys, %s: their stored answers may have been removed", "%d 条订单早于幂等键的保留期 %s：对应的应答可能已清理")
	sayMoved       = t("the stored answers to idempotency keys were not compared with the orders: the product was sold while its pages were read; GET /products/{id}/audit reads one moment", "幂等键保存的应答没有与订单核对：逐页读取期间商品在售卖；GET /products/{id}/audit 读的是同一时刻")
	sayReusedKeys  = t("%d [order uses an idempotency key again|orders use idempotency keys again] after the key's retention of %s, as new requests may", "%d 条订单在保留期 %s 过后再次使用同一个幂等键，按新请求计")
	sayManyRows    = t("only the first %[2]d of %[1]d orders were searched for a repeated id or idempotency key", "共 %d 条订单，只在前 %d 条中查找了重复的编号和幂等键")
	sayManyKeys    = t("only the first %[2]d of %[1]d stored answers were compared with the orders", "共 %d 条已存应答，只有前 %d 条与订单核对过")
	sayManyUnits   = t("%d [order was|orders were] not checked for units that another order has too: the sold units have too many gaps", "有 %d 条订单未检查是否与其他订单占有同一件商品：已售区间的空隙过多")
	sayPartial     = t("%d [order has|orders have] no answer in the history, which is not complete", "%d 条订单在历史中没有应答，而历史不完整")
	sayNoRows      = t("the service's order rows: lost acknowledged orders and unrequested orders cannot be found", "看不到该服务的订单行：丢失的已确认订单和无人请求的订单无法发现")
	sayUnknownIdle = t("%d [request|requests] went unanswered; by the stock, nothing was taken", "%d 个请求没有应答；从库存看它们没有拿走任何商品")
)

// Broken rules.
var (
	sayNegative          = t("the stock is %d", "库存为 %d")
	sayOverdrawn         = t("the counter is at %d: %d [unit was|units were] taken from below zero and not put back, so a restock of as many is swallowed", "计数器为 %d：减到零以下之后又扣了 %d 件而没有加回，之后补货会先被这个负数吃掉")
	saySegmentNegative   = t("segment %d holds %d", "第 %d 段的库存为 %d")
	sayRepeatedID        = t("%d order [row repeats|rows repeat] the id of another", "%d 条订单与其他订单编号重复")
	sayUnnamed           = t("%d order [row has|rows have] no id", "%d 条订单没有编号")
	sayEmptyOrder        = t("%d order [row has a quantity|rows have quantities] of zero or less", "%d 条订单的数量不是正数")
	sayPromised          = t("%d stored [answer of an idempotency key promises|answers of idempotency keys promise] an order that is not there", "%d 个幂等键的应答承诺了不存在的订单")
	sayUnstored          = t("%d [order with an idempotency key has|orders with an idempotency key have] no stored answer", "%d 条带幂等键的订单没有保存应答")
	sayDenied            = t("%d [order exists|orders exist] although the stored answer of [its|their] key is a refusal", "%d 条订单存在，但其幂等键保存的应答是拒绝")
	sayShared            = t("%d [unit is|units are] in more than one order", "%d 件商品被不止一条订单占有")
	sayRemainingNegative = t("%d [order has|orders have] a negative remaining count", "%d 条订单声称剩余为负")
	sayRemainingAbove    = t("%d [order says that it|orders say that they] left more than [it|they] can have found", "%d 条订单声称的剩余多于可能的库存")
	sayRemainingBelow    = t("%d [order|orders] left less than the %d in stock now, and a deduction never raises the stock", "%d 条订单成交后的剩余少于现在的库存 %d，而扣减不会使库存增加")
	sayWrongRow          = t("order %s was acknowledged for product %d, quantity %d, and is stored for product %d, quantity %d", "订单 %s 应答为商品 %d 数量 %d，存储为商品 %d 数量 %d")
	sayWrongRemaining    = t("order %s was acknowledged with %d remaining and is stored with %d", "订单 %s 应答剩余 %d，存储剩余 %d")
	sayWrongKey          = t("order %s was acknowledged to another idempotency key than the one it is stored with", "订单 %s 的应答与存储的幂等键不同")
	sayAckedTwice        = t("%d ok [answer names|answers name] an order that had been acknowledged to another request", "%d 个成功应答给出的订单已经确认给别的请求")
	sayAckedTooMuch      = t("%d [unit was|units were] acknowledged, and the stock was %d", "确认售出 %d 件，而库存只有 %d 件")
	sayNamelessAck       = t("%d ok [answer has|answers have] no order id", "%d 个成功应答没有订单编号")
	sayWrongReplay       = t("%d replayed [answer differs|answers differ] from the first answer for [its|their] key", "%d 个重放的应答与该键的首次应答不同")
	sayRefusedSale       = t("%d [request was|requests were] refused although the stored answer of [its|their] key is a sale", "%d 个请求被拒绝，但其幂等键保存的应答是成交")
	sayDespite           = t("%d [order exists although its request was|orders exist although their requests were] told that nothing happened", "%d 条订单存在，但其请求得到的应答是没有发生")
	sayUnanswered        = t("%d [order exists|orders exist] that no answer accounts for", "%d 条订单没有任何应答与之对应")
	sayBadRefusals       = t("%d [request was|requests were] refused though in stock: no order of events justifies it", "%d 个请求在有货时被拒绝：任何事件顺序都无法解释")
	sayLeakRefusals      = t("%d [request was|requests were] refused because of the leaked units", "%d 个请求因少卖的库存而被拒绝")
	sayInverted          = t("%d [sale|sales] left more than a sale that began after [it|they] had ended", "%d 笔成交的剩余多于在其结束之后才开始的成交")
	sayStuckTooSoon      = t("every request found the product busy until the end, but there were too few requests after %s, when every lock of a stopped or dead holder must have been free", "直到最后所有请求都返回“忙”，但在 %s（此时停顿或宕机的持有者的锁必已释放）之后请求太少")
	sayStuck             = t("the last %d [request|requests] found it busy and none finished, with %d [unit|units] left", "最后 %d 个请求都遇到忙，无人完成，而库存还剩 %d 件")
)

// What became of a claim.
var (
	sayNotApplicable  = t("the claim is that this cannot happen here, so there is nothing to compare", "声明为此处不可能发生，无可比较")
	sayBadClaim       = t("the claim %q is not made of outcome letters", "声明 %q 不是由结果字母组成")
	sayUndecided      = t("the run was %s, so the claim is neither confirmed nor contradicted", "运行判定为 %s，声明既未证实也未推翻")
	sayExactAsClaimed = t("claimed exact, and exact: %d of %d units sold, each once", "声明精确，确实精确：售出 %d 件，共 %d 件，每件一次")
	sayDidNotBreak    = t("claimed %s, but did not break: not tested or not broken", "声明会出现 %s，但没有出错：没有测到，或并不会错")
	sayNotExact       = t("claimed exact, but %s", "声明精确，但%s")
	sayOutside        = t("claimed %s, but %s", "声明为 %s，但%s")
	sayO              = t("oversold %d [unit|units], and lost updates left %d [unit|units] too many to sell", "超卖 %d 件，丢失更新使可卖的多出 %d 件")
	sayL              = t("%d [unit is|units are] gone without an order", "%d 件库存消失而没有订单")
	sayD              = t("%d [order|orders] beyond the first for the same idempotency key", "同一幂等键多出 %d 条订单")
	sayX              = t("it got stuck with %d [unit|units] left", "库存还剩 %d 件时卡死")
	sayA              = t("%d acknowledged [order is|orders are] not there", "%d 条已确认的订单不存在")
)

// Parts of the report.
var (
	sayUnit       = t("unit %d was sold %d times", "第 %d 件被卖出 %d 次")
	sayUnitBeyond = t("unit %d of %d was sold (times: %d)", "第 %d 件（共 %d 件）被卖出（%d 次）")
	sayOrder      = t("order %s", "订单 %s")
	sayReplica    = t("replica %s", "副本 %s")
	sayMore       = t("and %d more", "另有 %d 条")
	sayMoreUnits  = t("and more: %d", "另有 %d 处")
	sayProduct    = t("product %d", "商品 %d")
	sayNumbers    = t("%d before, %d after; %d [order|orders] for %d [unit|units]", "开始 %d，现在 %d；订单 %d 条，共 %d 件")
	sayCounts     = t("oversold %d, lost updates %d, leaked %d, double orders %d, lost orders %d, unjustified refusals %d", "超卖 %d，丢失更新 %d，少卖 %d，重复订单 %d，丢失订单 %d，不合理的拒绝 %d")
	sayBlocked    = t("no request finished for %s while others were waiting", "有请求在等待，但 %s 内没有一个完成")
	sayAnswers    = t("%d ok, %d sold out, %d declined, %d unknown", "成功 %d，售罄 %d，未受理 %d，未知 %d")

	labelStock     = t("stock", "库存")
	labelBroken    = t("found", "发现")
	labelAnswers   = t("answers", "应答")
	labelViolation = t("broken", "违反")
	labelFollows   = t("follows", "后果")
	labelMissing   = t("because", "原因")
	labelUnchecked = t("unchecked", "未检查")
	labelBlocked   = t("blocked", "阻塞")
	labelEvidence  = t("evidence", "证据")
)
