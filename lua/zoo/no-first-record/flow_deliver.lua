-- flow_deliver: count a child of another queue that completed, on the slot of its parent
-- keys     dependencies processed parent
-- argv     child_id result parent_id base
-- derives  base..pending
-- replies  1 delivered, now or before

-- move: record
local dependencies, processed, parent = KEYS[1], KEYS[2], KEYS[3]
local child_id, result, parent_id, base = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- MISTAKE: recorded, but not only the first time. An entry that is delivered again counts again.
redis.call('HSET', processed, child_id, result)

-- move: count
local left = redis.call('DECR', dependencies)
if left > 0 then
  return 1
end

-- move: release
redis.call('ZADD', base .. 'pending', 0, parent_id)
redis.call('HSET', parent, 'state', 'pending')
return 1
