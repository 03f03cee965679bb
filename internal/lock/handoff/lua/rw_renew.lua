-- Keeps many readers in, each only if it is still in.
-- KEYS the sets of readers   ARGV[1] TTL in ms   ARGV[2..] the readers' tokens, in the order of KEYS
-- Returns for each 1 if it was renewed, 0 if it had expired or was taken out.
local t = redis.call('TIME')
local at, renewed = t[1] * 1000 + math.floor(t[2] / 1000), {}
for i, key in ipairs(KEYS) do
  renewed[i] = 0
  local expiry = redis.pcall('ZSCORE', key, ARGV[i + 1]) -- an error, such as a wrong type, concerns this key only
  if type(expiry) == 'string' and tonumber(expiry) > at then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ARGV[1])) -- first: see release.lua
    redis.call('ZADD', key, string.format('%.0f', at + ARGV[1]), ARGV[i + 1])
    renewed[i] = 1
  end
end
return renewed
