-- extend_locks: give many busy workers of one queue a new deadline, all by one reading of the clock
-- keys     active
-- argv     base lease (id token)*
-- derives  base..job:<id>
-- replies  list of the ids not extended, in argument order

-- move: clock
local active = KEYS[1]
local base, lease = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = now + tonumber(lease)

-- move: extend
-- A lost lease is no reason to let the others lapse: it is listed, and the rest goes on.
local lost = {}
for i = 3, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local attempts = redis.call('HGET', base .. 'job:' .. id, 'attempts')
  if attempts == token then
    redis.call('ZADD', active, deadline, id)
  else
    lost[#lost + 1] = id
  end
end
return lost
