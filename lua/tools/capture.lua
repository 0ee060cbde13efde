-- capture: read every key that fits a pattern, with the server's time, in one step
-- keys
-- argv     pattern
-- replies  seconds, microseconds, then for each key its name, its type, its contents as a flat list and its deadline

-- move: clock
local time = redis.call('TIME')
local out = {time[1], time[2]}

-- move: read
local names = redis.call('KEYS', ARGV[1])
for _, name in ipairs(names) do
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
  out[#out + 1] = redis.call('PEXPIRETIME', name) -- unix milliseconds; negative where there is none
end
return out
