-- promote: make scheduled jobs claimable once their time has come
-- keys     schedule pending
-- argv     base limit
-- derives  base..job:<id>
-- replies  count of the jobs moved

-- move: due
local schedule, pending = KEYS[1], KEYS[2]
local base, limit = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The limit bounds one step: nothing else runs on this server while it lasts.
local due = redis.call('ZRANGEBYSCORE', schedule, '-inf', now, 'LIMIT', 0, limit)

-- move: promote
for i = 1, #due do
  local id = due[i]
  redis.call('ZREM', schedule, id)
  redis.call('ZADD', pending, 0, id)
  redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')
end
return #due
