-- extend_lock: give a worker that is still busy a new deadline
-- keys     active row
-- argv     id token lease
-- replies  1 extended · -1 gone · EMQSTALE extend token mismatch

-- move: fence
local active, row = KEYS[1], KEYS[2]
local id, token, lease = ARGV[1], ARGV[2], ARGV[3]
local attempts = redis.call('HGET', row, 'attempts')
if not attempts then
  return -1
end
if attempts ~= token then
  return redis.error_reply('EMQSTALE extend token mismatch')
end

-- move: extend
-- From now, not from the old deadline: a late heartbeat gets a whole lease too.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', active, now + tonumber(lease), id)
return 1
