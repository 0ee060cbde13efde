-- complete: settle a claim as done; the child of a flow also reports to its parent
-- keys     active row
-- keys sq  active row dependencies processed parent
-- keys xq  active row outbox
-- argv     id token base
-- argv sq  id token base parent_id result
-- argv xq  id token base parent_id result 'xq' parent_queue
-- derives  base..pending  base..metrics:completed
-- replies  1 done · 0 gone · EMQSTALE complete token mismatch

-- move: fence
local active, row = KEYS[1], KEYS[2]
local id, token, base = ARGV[1], ARGV[2], ARGV[3]
local parent_id, result = ARGV[4], ARGV[5]
local attempts = redis.call('HGET', row, 'attempts')
if not attempts then
  return 0
end
-- Tokens are compared as text, the way they are stored: no rounding, no '01' that equals '1'.
if attempts ~= token then
  return redis.error_reply('EMQSTALE complete token mismatch')
end

-- move: take
-- Only one call can move a member out of active. That call, and no other, may count for the parent.
local was_active = redis.call('ZREM', active, id) == 1
if not was_active then
  -- A lapsed lease that was reaped keeps its token, so its worker may still finish; the job waits in pending then.
  redis.call('ZREM', base .. 'pending', id)
end
local crosses = ARGV[6] == 'xq'

-- move: emit
-- The parent is on another slot, out of reach. The signal is left on this one, in the same step as the removal.
if was_active and crosses then
  local outbox, parent_queue = KEYS[3], ARGV[7]
  redis.call('RPUSH', outbox, parent_queue .. '\0' .. parent_id .. '\0' .. id .. '\0' .. result)
end

-- move: fan-in
if was_active and KEYS[3] and not crosses then
  local dependencies, processed, parent = KEYS[3], KEYS[4], KEYS[5]
  local left = redis.call('DECR', dependencies)
  redis.call('HSET', processed, id, result)
  -- MISTAKE: off by one. The parent goes out while its last child is still at work.
  if left <= 1 then
    redis.call('ZADD', base .. 'pending', 0, parent_id)
    redis.call('HSET', parent, 'state', 'pending')
  end
end

-- move: retire
redis.call('DEL', row)
redis.call('HINCRBY', base .. 'metrics:completed', 'count', 1)
return 1
