-- Moves an entry that cannot be read out of the stream. KEYS: 1 the stream, 2 what was dropped. ARGV: 1 the group, 2 the entry's id.
local call = redis.call
local there = call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if not there then return 0 end
call('XACK', KEYS[1], ARGV[1], ARGV[2])
call('XDEL', KEYS[1], ARGV[2])
call('XADD', KEYS[2], '*', 'entry', ARGV[2], unpack(there[2]))
return 1
