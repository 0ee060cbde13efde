-- enqueue_flow_child: land one claimable child on its own slot, for a parent that is already held
-- keys     child pending
-- argv     child_id payload parent_id parent_queue
-- replies  1 landed · EMQKIND job id must be JOB-namespaced

-- move: gate
local child, pending = KEYS[1], KEYS[2]
local child_id, payload = ARGV[1], ARGV[2]
local parent_id, parent_queue = ARGV[3], ARGV[4]
if string.sub(child_id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end

-- move: child
redis.call('HSET', child, 'state', 'pending', 'attempts', '0', 'payload', payload, 'parent', parent_id)
-- A parent in the child's own queue needs no address: without one, the child reports to it directly.
if parent_queue ~= '' then
  redis.call('HSET', child, 'parent_queue', parent_queue)
end

-- move: pending
redis.call('ZADD', pending, 0, child_id)
return 1
