-- early-release, in complete: the parent is released at one, not at zero

-- move: fan-in
if was_active and KEYS[3] and not crosses then
  local dependencies, processed, parent = KEYS[3], KEYS[4], KEYS[5]
  local left = redis.call('DECR', dependencies)
  redis.call('HSET', processed, id, result)
  -- MISTAKE: off by one. The parent goes out while its last child is still at work.
  if left <= 1 then
    redis.call('ZADD', base .. 'pending', 0, parent_id)
    redis.call('HSET', parent, 'state', 'pending')
  end
end
