-- schedule: land one job that becomes claimable later, after a delay or at a fixed time
-- keys     row schedule
-- argv in  id payload 'in' ms
-- argv at  id payload 'at' ms
-- replies  1 landed · 0 duplicate · EMQKIND job id must be JOB-namespaced

-- move: gate
local row, schedule = KEYS[1], KEYS[2]
local id, payload = ARGV[1], ARGV[2]
local mode, ms = ARGV[3], ARGV[4]
if string.sub(id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end

-- move: duplicate
if redis.call('EXISTS', row) == 1 then
  return 0
end

-- move: due
-- A delay counts on the server's clock. A fixed time is the one score the caller's clock decides.
local from = 0
if mode ~= 'at' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  from = now
end
local due = from + tonumber(ms)

-- move: land
redis.call('HSET', row, 'state', 'scheduled', 'attempts', '0', 'payload', payload)
redis.call('ZADD', schedule, due, id)
return 1
