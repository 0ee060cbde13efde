-- late-gate, in enqueue_flow: an id is looked at after others were written

-- move: gate
local parent, dependencies, pending = KEYS[1], KEYS[2], KEYS[3]
local parent_id, payload = ARGV[1], ARGV[2]
local n = tonumber(ARGV[3])
-- Every id is looked at before anything is written: one foreign child and no part of the flow lands.
if string.sub(parent_id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end

-- move: children
for i = 1, n do
  local child = KEYS[3 + i]
  local child_id = ARGV[2 + 2 * i]
  local child_payload = ARGV[3 + 2 * i]
  -- MISTAKE: looked at when its turn comes. The children before it have landed, and stay.
  if string.sub(child_id, 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
  -- The row names its parent, so that whoever finishes the child knows whom to tell.
  redis.call('HSET', child, 'state', 'pending', 'attempts', '0', 'payload', child_payload, 'parent', parent_id)
  redis.call('ZADD', pending, 0, child_id)
end
