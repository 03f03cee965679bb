-- Takes the lock on one master, unless that master may have forgotten one: it grants nothing until its boot mark is older
-- than the longest TTL. The mark is the server's run id and the time at which somebody first met it; an empty server has
-- none, and a restarted or promoted one has another's: both are marked afresh. Where INFO is refused the run id is ''.
-- KEYS[1] lock   KEYS[2] boot mark   ARGV[1] owner   ARGV[2] TTL in ms   ARGV[3] longest TTL in ms
-- Returns 0 when the lock is the caller's, -1 when it is held, else the milliseconds for which nothing will be granted.
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local marked, at = string.match(redis.call('GET', KEYS[2]) or '', '^(%w*) (%d+)$')
if marked ~= run then
  redis.call('SET', KEYS[2], string.format('%s %.0f', run, now))
  at = now
end
local young = tonumber(ARGV[3]) - (now - tonumber(at))
if young > 0 then
  return young
end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
return -1
