-- no-first-record, in flow_deliver: a delivery counts every time it is made

-- move: record
local dependencies, processed, parent = KEYS[1], KEYS[2], KEYS[3]
local child_id, result, parent_id, base = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- MISTAKE: recorded, but not only the first time. An entry that is delivered again counts again.
redis.call('HSET', processed, child_id, result)
