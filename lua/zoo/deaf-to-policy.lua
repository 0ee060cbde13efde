-- deaf-to-policy, in retry: every death is ignored, whatever was declared

-- move: ignore
local failed, unsuccessful, dependencies, parent = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local parent_id = ARGV[8]
-- MISTAKE: the policy is not read. Every death is ignored, whatever the flow declared.
if policy ~= '' then
  redis.call('HSET', unsuccessful, id, failure)
  local left = redis.call('DECR', dependencies)
  if left <= 0 then
    redis.call('ZADD', base .. 'pending', 0, parent_id)
    redis.call('HSET', parent, 'state', 'pending')
  end
  return 'dead'
end
