-- impatient-reaper, in reap: the reaper does not look at the deadline

-- move: lapsed
local active, pending = KEYS[1], KEYS[2]
local base = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- MISTAKE: the deadline is not asked. Whoever is at work loses the job to the next reaper.
local lapsed = redis.call('ZRANGE', active, 0, 99)
