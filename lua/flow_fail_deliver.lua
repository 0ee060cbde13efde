-- flow_fail_deliver: apply what the death of a child of another queue means, on the slot of its parent
-- keys     dependencies failed unsuccessful parent
-- argv     child_id error policy base parent_id
-- derives  base..pending  base..dead
-- replies  1 delivered, now or before

-- move: fail parent
local dependencies, failed, unsuccessful, parent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local child_id, failure, policy = ARGV[1], ARGV[2], ARGV[3]
local base, parent_id = ARGV[4], ARGV[5]
if policy == 'fp' then
  -- Only the first record of this death moves the parent: an operator may have revived it since.
  if redis.call('HSETNX', failed, child_id, failure) == 1 then
    redis.call('HSET', parent, 'state', 'dead')
    redis.call('ZADD', base .. 'dead', 0, parent_id)
    redis.call('ZREM', base .. 'pending', parent_id)
  end
  return 1
end

-- move: record
if redis.call('HSETNX', unsuccessful, child_id, failure) == 0 then
  return 1
end

-- move: count
local left = redis.call('DECR', dependencies)
if left > 0 then
  return 1
end

-- move: release
redis.call('ZADD', base .. 'pending', 0, parent_id)
redis.call('HSET', parent, 'state', 'pending')
return 1
