-- every-death-counts, in retry: a death that fails the parent is counted as well

-- move: fail parent
-- MISTAKE: a death that fails the parent is counted as well, as if the dependency had been satisfied.
redis.call('DECR', dependencies)
redis.call('HSET', failed, id, failure)
redis.call('HSET', parent, 'state', 'dead')
redis.call('ZADD', dead, 0, parent_id)
redis.call('ZREM', base .. 'pending', parent_id)
return 'dead'
