-- Keeps many locks alive, each only for its owner.
-- KEYS the locks, and after them hashes whose note of a grant is obsolete: see note_grant in pass.lua
-- ARGV[1] TTL in ms   ARGV[2..] the owners' tokens, in the order of KEYS
-- Returns for each 1 if it was renewed, 0 if the token does not own it (any more).
local renewed, locks = {}, #ARGV - 1
for i, key in ipairs(KEYS) do
  if i > locks then
    redis.pcall('HDEL', key, 'granted')
  elseif redis.pcall('GET', key) == ARGV[i + 1] then -- an error, such as a wrong type, concerns this key only
    renewed[i] = redis.call('PEXPIRE', key, ARGV[1])
  else
    renewed[i] = 0
  end
end
return renewed
