-- reap: take back the jobs whose lease has lapsed and make them claimable again
-- keys     active pending
-- argv     base
-- derives  base..job:<id>
-- replies  count of the jobs taken back

-- move: lapsed
local active, pending = KEYS[1], KEYS[2]
local base = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- MISTAKE: the deadline is not asked. Whoever is at work loses the job to the next reaper.
local lapsed = redis.call('ZRANGE', active, 0, 99)

-- move: take back
-- The attempts stay: the silent worker keeps a valid token until the next claim hands out a new one.
for i = 1, #lapsed do
  local id = lapsed[i]
  redis.call('ZREM', active, id)
  redis.call('ZADD', pending, 0, id)
  redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')
end
return #lapsed
