-- same-token, in claim: every claim of a job hands out the same token

-- move: fence
-- MISTAKE: only the first claim counts, so every later holder gets a token that somebody else has too.
local attempts = redis.call('HGET', row, 'attempts')
if attempts == '0' then
  attempts = redis.call('HINCRBY', row, 'attempts', 1)
end
attempts = tonumber(attempts)
redis.call('HSET', row, 'state', 'active')
