-- reserve: give a minter of ids a node, and a stretch of milliseconds in which nobody else has that node
-- keys     ids
-- argv     now length
-- replies  node, first and last millisecond, as text

-- A hash from each node to the last millisecond that was ever given away with it. Stretches of one node follow one
-- another and are never taken back, so there is no lease to lapse: whoever was given one may mint in it for ever.

-- move: look
local now, length = tonumber(ARGV[1]), tonumber(ARGV[2])
local until_ms, latest = {}, now
local pairs_of = redis.call('HGETALL', KEYS[1])
for i = 1, #pairs_of, 2 do
  local last = tonumber(pairs_of[i + 1])
  until_ms[tonumber(pairs_of[i])] = last
  if last > latest then
    latest = last
  end
end

-- move: choose
-- The first node that is free now; when all are taken, the one that is free first, from then on.
local node, free = 0, nil
for candidate = 0, 1023 do
  local last = until_ms[candidate] or -1
  if not free or last < free then
    node, free = candidate, last
  end
  if free < now then
    break
  end
end

-- move: give
local first = now
if free >= first then
  first = free + 1
end
local last = first + length - 1
if last > latest then
  latest = last
end
redis.call('HSET', KEYS[1], node, string.format('%.0f', last))
local week = 7 * 24 * 3600 * 1000
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', latest + week))
return {tostring(node), string.format('%.0f', first), string.format('%.0f', last)}
