-- lapsed-is-lost, in reap: a lapsed job is put nowhere

-- move: take back
-- The attempts stay: the silent worker keeps a valid token until the next claim hands out a new one.
for i = 1, #lapsed do
  local id = lapsed[i]
  -- MISTAKE: taken out of active, and put nowhere.
  redis.call('ZREM', active, id)
  redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')
end
return #lapsed
