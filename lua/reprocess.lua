-- reprocess: give a dead job another life, on an operator's word
-- keys     row dead pending
-- argv     id
-- replies  1 pending again · -1 gone · EMQSTATE not dead

-- move: gate
local row, dead, pending = KEYS[1], KEYS[2], KEYS[3]
local id = ARGV[1]
if redis.call('EXISTS', row) == 0 then
  return -1
end

-- move: take
-- Taking the id out of dead is the test as well: of two operators at once only one succeeds.
if redis.call('ZREM', dead, id) == 0 then
  return redis.error_reply('EMQSTATE not dead')
end

-- move: revive
-- The attempts stay, so the tokens of the first life remain spent.
redis.call('HSET', row, 'state', 'pending')
redis.call('HDEL', row, 'last_error')
redis.call('ZADD', pending, 0, id)
return 1
