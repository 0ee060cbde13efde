-- parent-not-held, in enqueue_flow: a flow lands with its parent in pending

-- move: parent
-- MISTAKE: the parent goes into pending with its children, for the next claim to take.
redis.call('ZADD', pending, 0, parent_id)
redis.call('HSET', parent, 'state', 'awaiting_children', 'attempts', '0', 'payload', payload)
