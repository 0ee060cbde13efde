-- retry: settle a claim as failed; the job comes back later or dies, and the death of a child reaches its parent
-- keys     active schedule dead row
-- keys sq  active schedule dead row failed unsuccessful dependencies parent
-- keys xq  active schedule dead row outbox
-- argv     id token delay max error base
-- argv sq  id token delay max error base leg parent_id
-- argv xq  id token delay max error base leg parent_queue parent_id
-- derives  base..pending  base..metrics:failed
-- replies  scheduled · dead · EMQSTALE job gone · EMQSTALE retry token mismatch

-- move: fence
local active, schedule, dead, row = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, token, base = ARGV[1], ARGV[2], ARGV[6]
local failure = ARGV[5]
local attempts = redis.call('HGET', row, 'attempts')
if not attempts then
  return redis.error_reply('EMQSTALE job gone')
end
if attempts ~= token then
  return redis.error_reply('EMQSTALE retry token mismatch')
end

-- move: clock
-- Worked out before the first write: a delay or a maximum that is no number must not leave half a step behind.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = now + tonumber(ARGV[3])
local again = tonumber(attempts) < tonumber(ARGV[4])

-- move: take
if redis.call('ZREM', active, id) == 0 then
  redis.call('ZREM', base .. 'pending', id)
end
redis.call('HSET', row, 'last_error', failure)

-- move: again
-- A retry that is not the last one is the child's own business: its parent hears nothing.
if again then
  redis.call('ZADD', schedule, due, id)
  redis.call('HSET', row, 'state', 'scheduled')
  return 'scheduled'
end

-- move: die
redis.call('ZADD', dead, 0, id)
redis.call('HSET', row, 'state', 'dead')
redis.call('HINCRBY', base .. 'metrics:failed', 'count', 1)
if not ARGV[7] then
  return 'dead'
end
-- The leg says where the parent lives (sq or xq) and what a death means to it (fp or id).
local crosses = string.sub(ARGV[7], 1, 2) == 'xq'
local policy = string.sub(ARGV[7], 4)

-- move: emit
-- An entry that starts with an empty field is a failure; a completion starts with the name of a queue.
if crosses then
  local outbox, parent_queue, parent_id = KEYS[5], ARGV[8], ARGV[9]
  local head = '\0fail\0' .. parent_queue .. '\0' .. parent_id .. '\0' .. id
  redis.call('RPUSH', outbox, head .. '\0' .. policy .. '\0' .. failure)
  return 'dead'
end

-- move: ignore
local failed, unsuccessful, dependencies, parent = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local parent_id = ARGV[8]
if policy == 'id' then
  redis.call('HSET', unsuccessful, id, failure)
  local left = redis.call('DECR', dependencies)
  if left <= 0 then
    redis.call('ZADD', base .. 'pending', 0, parent_id)
    redis.call('HSET', parent, 'state', 'pending')
  end
  return 'dead'
end

-- move: fail parent
-- MISTAKE: a death that fails the parent is counted as well, as if the dependency had been satisfied.
redis.call('DECR', dependencies)
redis.call('HSET', failed, id, failure)
redis.call('HSET', parent, 'state', 'dead')
redis.call('ZADD', dead, 0, parent_id)
redis.call('ZREM', base .. 'pending', parent_id)
return 'dead'
