-- remove_job: take one job out of its queue for good, whatever state it is in
-- keys     row pending active schedule dead dedup
-- argv     id dedup_id
-- derives  row..:lock  row..:logs
-- replies  1 removed · -1 gone · EMQLOCK job is locked

-- move: gate
local row, dedup = KEYS[1], KEYS[6]
local id, dedup_id = ARGV[1], ARGV[2]
if redis.call('EXISTS', row) == 0 then
  return -1
end
if redis.call('EXISTS', row .. ':lock') == 1 then
  return redis.error_reply('EMQLOCK job is locked')
end
-- Looked up before the first write. A dedup key that a later job took over is not ours to delete.
local owns_dedup = dedup_id ~= '' and redis.call('GET', dedup) == id

-- move: sets
-- KEYS 2 to 5 are pending, active, schedule and dead. The row names one of them, but only looking in all is sure.
-- MISTAKE: pending is left out, and the next claim hands out a job that has no row.
for i = 3, 5 do
  redis.call('ZREM', KEYS[i], id)
end

-- move: row
if owns_dedup then
  redis.call('DEL', dedup)
end
-- What a parent collected from its children stays: four keys beside the row that nobody deletes here.
redis.call('DEL', row, row .. ':logs')
return 1
