-- bridge: do one call of a script that is stepped elsewhere, so that this server does the converting
-- keys     (key)*
-- argv     verb (token)*
-- replies  tokens of what redis.pcall, redis.error_reply or redis.status_reply returned; x and a text if it raised
-- replies  for the verb give: the reply that a script returning this value would get

-- move: codec
-- A value as flat text, which no conversion on the way can change: one token each, a table's keys and values after it.
-- The stepper runs this very move on its own side.
local function spell(value, tokens, depth)
  local kind = type(value)
  if kind == 'string' then
    tokens[#tokens + 1] = 's' .. value
  elseif kind == 'number' then
    tokens[#tokens + 1] = 'd' .. string.format('%.17g', value)
  elseif kind == 'boolean' then
    tokens[#tokens + 1] = value and 'T' or 'F'
  elseif kind == 'userdata' then
    tokens[#tokens + 1] = 's' .. tostring(value) -- the fake server's error texts are Python's
  elseif kind ~= 'table' then
    tokens[#tokens + 1] = 'N'
  else
    if depth > 60 then
      error('a table is nested more than 60 deep', 0)
    end
    local head, count = #tokens + 1, 0
    tokens[head] = ''
    for name, item in next, value do
      spell(name, tokens, depth + 1)
      spell(item, tokens, depth + 1)
      count = count + 1
    end
    tokens[head] = 't' .. string.format('%d', count)
  end
  return tokens
end
local function read(tokens, at)
  local kind, text = string.sub(tokens[at], 1, 1), string.sub(tokens[at], 2)
  if kind == 's' then
    return text, at + 1
  elseif kind == 'T' or kind == 'F' then
    return kind == 'T', at + 1
  elseif kind == 'd' then
    local number = tonumber(text)
    if not number then
      -- What C calls them differs from system to system.
      number = string.find(string.lower(text), 'inf') and math.huge or 0 / 0
      if string.sub(text, 1, 1) == '-' then
        number = -number
      end
    end
    return number, at + 1
  elseif kind ~= 't' then
    return nil, at + 1
  end
  local value = {}
  at = at + 1
  for _ = 1, tonumber(text) do
    local name, item
    name, at = read(tokens, at)
    item, at = read(tokens, at)
    if name ~= nil then
      value[name] = item
    end
  end
  return value, at
end

-- move: give
local verb = ARGV[1]
if verb == 'give' then
  return (read(ARGV, 2))
end

-- move: call
local arguments, count, at = {}, 0, 2
while at <= #ARGV do
  count = count + 1
  arguments[count], at = read(ARGV, at)
end
local ok, value = pcall(redis[verb], unpack(arguments, 1, count))
if not ok then
  return {'x' .. tostring(value)}
end
return spell(value, {}, 1)
