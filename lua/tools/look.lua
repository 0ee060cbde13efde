-- look: read some keys by name, with the server's time and how many keys there are, in one step
-- keys
-- argv     (name)*
-- replies  seconds, microseconds, the number of keys, then each key's name, its type (none if it is missing) and contents

-- move: clock
local time = redis.call('TIME')
local out = {time[1], time[2], redis.call('DBSIZE')}

-- move: read
for _, name in ipairs(ARGV) do
  local kind = redis.call('TYPE', name)['ok']
  local contents = {}
  if kind == 'string' then
    contents = {redis.call('GET', name)}
  elseif kind == 'hash' then
    contents = redis.call('HGETALL', name)
  elseif kind == 'list' then
    contents = redis.call('LRANGE', name, 0, -1)
  elseif kind == 'zset' then
    contents = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES')
  elseif kind == 'set' then
    contents = redis.call('SMEMBERS', name)
  end
  out[#out + 1] = name
  out[#out + 1] = kind
  out[#out + 1] = contents
end
return out
