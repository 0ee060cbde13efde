-- half-removed, in remove_job: a removed job stays in pending

-- move: sets
-- KEYS 2 to 5 are pending, active, schedule and dead. The row names one of them, but only looking in all is sure.
-- MISTAKE: pending is left out, and the next claim hands out a job that has no row.
for i = 3, 5 do
  redis.call('ZREM', KEYS[i], id)
end
