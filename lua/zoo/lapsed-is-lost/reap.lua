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
-- The score of an active job is its deadline, so a range of scores finds every silent worker.
local lapsed = redis.call('ZRANGEBYSCORE', active, '-inf', now, 'LIMIT', 0, 100)

-- move: take back
-- The attempts stay: the silent worker keeps a valid token until the next claim hands out a new one.
for i = 1, #lapsed do
  local id = lapsed[i]
  -- MISTAKE: taken out of active, and put nowhere.
  redis.call('ZREM', active, id)
  redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')
end
return #lapsed
