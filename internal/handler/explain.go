package handler

import (
	"github.com/gin-gonic/gin"

	"lastitem/internal/api"
)

// explanation is the body of GET /problems/{code}, to which the type of each problem points.
type explanation struct {
	Code     api.Code     `json:"code"`
	Status   int          `json:"status"`
	Title    string       `json:"title"`
	Happened api.Happened `json:"happened"`
	Text     api.Text     `json:"text"`
}

// The reader of an error may have nothing but these texts: they say what happened to the stock, and what to do now.

// explanations holds, for each code, what it means and what to do; the English one is also the detail of a problem that
// has nothing more precise to say.
var explanations = map[api.Code]api.Text{
	api.SoldOut: {
		En: "fewer units are left than were requested",
		Zh: "剩余库存少于请求数量"},
	api.ProductSegmented: {
		En: "the product's stock is split into segments and this mode works on one counter; set the stock again without segments",
		Zh: "该商品的库存已分段，而此模式只操作单一计数器；请不带 segments 重新设置库存"},
	api.UnknownProduct: {
		En: "none of the stores that were asked has this product; PUT /products/{id}/stock creates it in every store",
		Zh: "所查询的存储中没有该商品；可用 PUT /products/{id}/stock 在所有存储中设置"},
	api.UnknownMode: {
		En: "there is no such mode; GET /modes lists them",
		Zh: "没有这个模式；GET /modes 列出全部模式"},
	api.NotFound: {
		En: "there is no such route; GET / lists them",
		Zh: "没有这个路径；GET / 列出全部路径"},
	api.InvalidRequest: {
		En: "a field is missing, unknown, given twice or out of range; the problem names it",
		Zh: "某个字段缺失、未知、重复或超出范围；错误正文会指出是哪个字段"},
	api.KeyMissing: {
		En: "this mode needs an Idempotency-Key header",
		Zh: "此模式要求携带 Idempotency-Key 请求头"},
	api.Unauthorized: {
		En: "this route needs Authorization: Bearer with the admin token",
		Zh: "此路径要求 Authorization: Bearer 管理员令牌"},
	api.Forbidden: {
		En: "a browser sent this request for a page of another site, or with a host name that the shop does not accept; or a deduction has lease_ms, depth or hold_ms without the admin token",
		Zh: "此请求由浏览器替其他站点的页面发出，或使用了不属于本服务的主机名；或者扣减请求带了 lease_ms、depth 或 hold_ms，却没有管理员令牌"},
	api.MethodNotAllowed: {
		En: "the path exists, but not for this method; the Allow header lists the methods",
		Zh: "路径存在，但不支持此方法；Allow 响应头列出可用方法"},
	api.BodyTooLarge: {
		En: "the body may hold at most 65536 bytes",
		Zh: "请求体最多 65536 字节"},
	api.UnsupportedMediaType: {
		En: "send application/json or application/x-www-form-urlencoded, in UTF-8 and without Content-Encoding",
		Zh: "请使用 UTF-8 编码的 application/json 或 application/x-www-form-urlencoded，且不要压缩"},
	api.KeyReused: {
		En: "this Idempotency-Key belongs to a request with another payload; use a new key for a new request; after its retention (SHOP_KEEP_KEYS) a key is forgotten, and deducts again",
		Zh: "该 Idempotency-Key 已用于另一个内容不同的请求；新请求请使用新的键：键过了保留期（SHOP_KEEP_KEYS）才算新键，再用会再次扣减"},
	api.InFlight: {
		En: "the first request with this Idempotency-Key is still being worked on; repeat with the same key",
		Zh: "使用该 Idempotency-Key 的首个请求仍在处理中；请稍后用同一个键重试"},
	api.RateLimited: {
		En: "too many requests of this kind; this one was not executed, and may be repeated after Retry-After",
		Zh: "此类请求过多；本次请求没有执行，可在 Retry-After 之后重试"},
	api.LockBusy: {
		En: "somebody else held the lock for as long as wait_ms allows; nothing was deducted",
		Zh: "在 wait_ms 允许的时间内锁一直被他人持有；没有扣减库存"},
	api.LockLost: {
		En: "the lock was lost before the first write; nothing was deducted",
		Zh: "首次写入之前锁已丢失；没有扣减库存"},
	api.Contended: {
		En: "another request won the race for this product; nothing was deducted",
		Zh: "同一商品的另一个请求抢先完成；没有扣减库存"},
	api.BackendUnavailable: {
		En: "a backend did not answer, or refused; nothing was deducted",
		Zh: "后端没有应答，或拒绝了请求；没有扣减库存"},
	api.ModeUnavailable: {
		En: "this mode lacks a backend; GET /modes/{mode} says which, and what to do",
		Zh: "此模式缺少所需的后端；GET /modes/{mode} 说明缺少哪一个以及如何处理"},
	api.OutcomeUnknown: {
		En: "the write was sent and its answer was lost: it may have happened; repeat only with the same Idempotency-Key",
		Zh: "写入已发出但没有收到应答：可能已经扣减；只能用同一个 Idempotency-Key 重试"},
	api.Internal: {
		En: "something unforeseen went wrong; the service has logged the cause",
		Zh: "发生了未预料的错误；服务端已记录原因"},
}

// explain serves GET /problems/{code}, in both languages at once: a link says nothing about the reader's language.
func (h *Handler) explain(c *gin.Context) outcome {
	code := api.Code(c.Param("code"))
	text, ok := explanations[code]
	if !ok {
		return outcome{code: h.fail(c, errNotFound)}
	}
	f := api.Codes[code]
	return h.send(c, explanation{Code: code, Status: f.Status, Title: f.Title, Happened: f.Happened, Text: text})
}
