-- native_fail: a model of the native command EMQ.FAIL, not the command itself: the flat failure, and no flow
-- keys     active schedule dead row
-- keys sq  active schedule dead row failed unsuccessful dependencies parent
-- keys xq  active schedule dead row outbox
-- argv     id token delay max error base
-- argv sq  (argument)*
-- argv xq  (argument)*
-- derives  base..pending  base..metrics:failed
-- replies  scheduled · dead · EMQSTALE job gone · EMQSTALE retry token mismatch · EMQSTATE fail flow not native
-- replies  EMQSHAPE fail takes 4 keys and id, token, delay, max, error, base

-- The command line is EMQ.FAIL 4 active schedule dead row id token delay max error base. For the model, numkeys is the
-- number of KEYS. The layouts sq and xq are declared because they arrive and are refused, not because they run.

-- move: layout
local active, schedule, dead, row = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, token, base = ARGV[1], ARGV[2], ARGV[6]
local failure = ARGV[5]
if #KEYS == 5 or #KEYS == 8 then
  return redis.error_reply('EMQSTATE fail flow not native')
end

-- move: shape
if #KEYS ~= 4 or #ARGV ~= 6 then
  return redis.error_reply('EMQSHAPE fail takes 4 keys and id, token, delay, max, error, base')
end

-- move: fence
local attempts = redis.call('HGET', row, 'attempts')
if not attempts then
  return redis.error_reply('EMQSTALE job gone')
end
if attempts ~= token then
  return redis.error_reply('EMQSTALE retry token mismatch')
end

-- move: no flow
-- A death that the parent never hears of would hold it for ever, so the flat form refuses, whatever the attempts say.
if redis.call('HEXISTS', row, 'parent') == 1 then
  return redis.error_reply('EMQSTATE fail flow not native')
end

-- move: clock
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
if again then
  redis.call('ZADD', schedule, due, id)
  redis.call('HSET', row, 'state', 'scheduled')
  return 'scheduled'
end

-- move: die
redis.call('ZADD', dead, 0, id)
redis.call('HSET', row, 'state', 'dead')
redis.call('HINCRBY', base .. 'metrics:failed', 'count', 1)
return 'dead'
