-- restore: write keys with their contents, after clearing what fits a pattern
-- keys
-- argv     pattern (value)*
-- replies  the number of keys written or deleted

-- After the pattern (empty: clear nothing) the values come key by key: name, type, deadline (unix milliseconds; 0: none),
-- number of items, items. A key is deleted first; the type `none` leaves it so. The items of a zset are score, member
-- pairs, as ZADD takes them.

-- move: clear
if ARGV[1] ~= '' then
  local names = redis.call('KEYS', ARGV[1])
  for _, name in ipairs(names) do
    redis.call('DEL', name)
  end
end

-- move: write
local verbs = {string = 'SET', hash = 'HSET', list = 'RPUSH', zset = 'ZADD', set = 'SADD'}
local at, written = 2, 0
while at <= #ARGV do
  local name, kind, deadline, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + 4
  redis.call('DEL', name)
  local done = 0
  while done < count do
    -- In pieces, since a call takes only so many arguments; an even number, so that no pair is torn.
    local piece = math.min(count - done, 1000)
    redis.call(verbs[kind], name, unpack(ARGV, at + done, at + done + piece - 1))
    done = done + piece
  end
  if deadline ~= '0' then
    redis.call('PEXPIREAT', name, deadline)
  end
  at = at + count
  written = written + 1
end
return written
