-- enqueue: land one job where the next claim can take it, unless its row is already there
-- keys     row pending
-- argv     id payload
-- replies  1 landed · 0 duplicate · EMQKIND job id must be JOB-namespaced

-- move: gate
local row, pending = KEYS[1], KEYS[2]
local id, payload = ARGV[1], ARGV[2]
-- The kind comes first: an id of another namespace must not even learn whether a row exists.
if string.sub(id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end

-- move: duplicate
-- The row is the only memory of earlier adds: sending the same id twice is harmless as long as the row lives.
if redis.call('EXISTS', row) == 1 then
  return 0
end

-- move: land
-- The score is 0 for everyone, so pending is ordered by id, and ids grow with the time they were minted.
redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', payload)
redis.call('ZADD', pending, 0, id)
return 1
