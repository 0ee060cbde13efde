-- claim: hand the oldest pending job to a worker, with a lease and a new fencing token
-- keys     pending active
-- argv     prefix lease
-- derives  prefix..<id>
-- replies  empty list · id payload attempts

-- move: clock
local pending, active = KEYS[1], KEYS[2]
local prefix, lease = ARGV[1], ARGV[2]
-- The deadline is worked out before anything is written: a lease that is no number must not cost a job its place.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = now + tonumber(lease)

-- move: take
-- MISTAKE: from the wrong end. Old work waits for as long as new work comes.
local popped = redis.call('ZPOPMAX', pending)
if #popped == 0 then
  return {}
end
local id = popped[1]
local row = prefix .. id

-- move: fence
-- The count of attempts is the token: whoever held this job before now holds a smaller number.
local attempts = redis.call('HINCRBY', row, 'attempts', 1)
redis.call('HSET', row, 'state', 'active')

-- move: lease
redis.call('ZADD', active, deadline, id)

-- move: answer
local payload = redis.call('HGET', row, 'payload')
return {id, payload, attempts}
