-- hold_parent: land a parent alone and held, before any of its children exists
-- keys     parent dependencies
-- argv     parent_id payload n
-- replies  1 held · EMQKIND job id must be JOB-namespaced

-- move: gate
local parent, dependencies = KEYS[1], KEYS[2]
local parent_id, payload, n = ARGV[1], ARGV[2], ARGV[3]
if string.sub(parent_id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end

-- move: parent
redis.call('HSET', parent, 'state', 'awaiting_children', 'attempts', '0', 'payload', payload)

-- move: counter
-- All children count, in whatever queue. With the counter there first, none can finish before there is one to lower.
redis.call('SET', dependencies, n)
return 1
