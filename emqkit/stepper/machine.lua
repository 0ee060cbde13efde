-- The machine in which a stepped script runs: Lua 5.1 under lupa, with the dialect of a live Valkey and no way out.
-- It is given the script and three functions, and returns how the script ended. The script sees only the table
-- `visible`.
local source, codec, withheld, keys, argv, budget, on_line, ask, sha1hex = ...

local getinfo, getlocal, sethook = debug.getinfo, debug.getlocal, debug.sethook
local type, tostring, error, next, select, unpack = type, tostring, error, next, select, unpack
local pcall, xpcall, rawget, rawset, setmetatable, setfenv = pcall, xpcall, rawget, rawset, setmetatable, setfenv
local format, gsub, sub, byte, match = string.format, string.gsub, string.sub, string.byte, string.match
local upper, concat, sort, floor, tonumber = string.upper, table.concat, table.sort, math.floor, tonumber
local spell, read = loadstring(codec .. '\nreturn spell, read', '=codec')()
local USER = '@user_script'

-- Why the script was stopped. Once set, it cannot be caught: every pcall, and every line, raises it again.
local stopped
local function stop(why)
  stopped = stopped or why
  error(stopped, 0)
end

-- The line of the script that is running: the last that began, or was returned into.
local last_line = 0

-- A function returns, perhaps into the middle of a line of the script: no line begins, but another one continues.
local function returned()
  local level, info = 4, getinfo(4, 'Sl')
  while info and info.what == 'tail' do -- the frames it replaced itself
    level = level + 1
    info = getinfo(level, 'Sl')
  end
  if info and info.source == USER then
    last_line = info.currentline
  end
end

-- --- what a value looks like ---------------------------------------------------------------------------------------

local seconds, microseconds, now -- the script's one clock reading

local function quoted(text)
  local cut = #text > 72
  if cut then
    text = gsub(sub(text, 1, 72), '[\192-\255][\128-\191]*$', '')
  end
  text = gsub(text, '[%z\1-\31\127"\\]', function(c)
    if c == '"' or c == '\\' then
      return '\\' .. c
    end
    return c == '\n' and '\\n' or c == '\0' and '\\0' or format('\\x%02x', byte(c))
  end)
  return '"' .. text .. (cut and '…"' or '"')
end

local function shown(value, depth)
  local kind = type(value)
  if kind == 'string' then
    return quoted(value)
  elseif kind == 'number' then
    -- A clock reading tells a reader nothing; the distance from it does.
    local off = now and value >= 1e12 and value - now
    if off and off > -3.2e10 and off < 3.2e10 then
      return off == 0 and 'now' or 'now ' .. gsub(format('%+.14g', off), '^.', '%0 ')
    end
    return format('%.14g', value)
  elseif kind ~= 'table' then
    return kind == 'function' and 'function' or tostring(value)
  elseif now and rawget(value, 1) == seconds and rawget(value, 2) == microseconds and rawget(value, 3) == nil then
    return '{now: seconds, microseconds}'
  elseif depth > 2 then
    return '{…}'
  end
  local parts, length = {}, 0
  while rawget(value, length + 1) ~= nil do
    length = length + 1
    if length <= 8 then
      parts[length] = shown(rawget(value, length), depth + 1)
    end
  end
  if length > 8 then
    parts[9] = format('… %d more', length - 8)
  end
  local named = {}
  for name, item in next, value do
    if type(name) ~= 'number' or name < 1 or name > length or name ~= floor(name) then
      named[#named + 1] = (type(name) == 'string' and name or '[' .. shown(name, depth + 1) .. ']') .. ' = ' .. shown(item, depth + 1)
    end
  end
  sort(named)
  for i = 1, #named do
    if i > 8 then
      parts[#parts + 1] = format('… %d more', #named - 8)
      break
    end
    parts[#parts + 1] = named[i]
  end
  return '{' .. concat(parts, ', ') .. '}'
end

-- --- redis ---------------------------------------------------------------------------------------------------------

local function answered(verb, ...)
  local words = {}
  for i = 1, select('#', ...) do
    spell((select(i, ...)), words, 1)
  end
  local tokens = ask(verb, last_line, words, #words)
  local mark = sub(tokens[1], 1, 1)
  if mark == '!' then
    stop(sub(tokens[1], 2))
  elseif mark == 'x' then
    error(sub(tokens[1], 2), 0)
  end
  return (read(tokens, 1))
end

local function call(...)
  local count = select('#', ...)
  if count == 0 then
    return {err = 'ERR Please specify at least one argument for this call'}
  end
  for i = 1, count do
    local kind = type((select(i, ...)))
    if kind ~= 'string' and kind ~= 'number' then
      return {err = 'ERR Command arguments must be strings or integers'}
    end
  end
  local value = answered('pcall', ...)
  if not now and type(value) == 'table' and #value == 2 and upper(tostring((...))) == 'TIME' then
    seconds, microseconds = value[1], value[2]
    now = tonumber(seconds) * 1000 + floor(tonumber(microseconds) / 1000)
  end
  return value
end

local redis = {LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3, pcall = call}
function redis.call(...)
  local value = call(...)
  if type(value) == 'table' and value.err then
    error(value)
  end
  return value
end
function redis.error_reply(...)
  return answered('error_reply', ...)
end
function redis.status_reply(...)
  return answered('status_reply', ...)
end
function redis.log(level, ...)
  if select('#', ...) == 0 then
    error({err = 'ERR server.log() requires two arguments or more.'})
  elseif type(level) ~= 'number' then
    error({err = 'ERR First argument must be a number (log level).'})
  elseif level < 0 or level > 3 then
    error({err = 'ERR Invalid log level.'})
  end
end
function redis.sha1hex(...)
  if select('#', ...) ~= 1 then
    error({err = 'ERR wrong number of arguments'})
  end
  return sha1hex(tostring((...)))
end

-- --- what the script sees ------------------------------------------------------------------------------------------

-- A live server's tables are readonly; here a copy behind a proxy table does the same.
local closed = setmetatable({}, {__mode = 'k'})
local function readonly(inner, missing)
  local outer = setmetatable({}, {
    __index = function(_, name)
      local value = inner[name]
      if value == nil then
        return missing(name)
      end
      return value
    end,
    __newindex = function()
      error('Attempt to modify a readonly table', 2)
    end,
    __metatable = false,
  })
  closed[outer] = true
  return outer
end

local function member_of(owner)
  return function(name)
    local why = withheld[owner .. '.' .. tostring(name)]
    if why then
      stop(why)
    end
    return nil
  end
end

-- Live, the error of a failed redis.call is a table; its pcall returns the text in it, as older versions did.
local function caught(ok, ...)
  if stopped then
    error(stopped, 0)
  end
  local problem = ...
  if not ok and type(problem) == 'table' and rawget(problem, 'err') then
    return false, rawget(problem, 'err')
  end
  return ok, ...
end

local function checked(...)
  if stopped then
    error(stopped, 0)
  end
  return ...
end

local math_of_ours, table_of_ours, string_of_ours = {}, {}, {}
for name, value in next, math do math_of_ours[name] = value end
for name, value in next, table do table_of_ours[name] = value end
for name, value in next, string do string_of_ours[name] = value end
math_of_ours.random, math_of_ours.randomseed = nil, nil
local strings = readonly(string_of_ours, member_of('string'))
-- So that ("x"):rep(3) finds string.rep, and a script cannot change what this file depends on.
getmetatable('').__index = strings

local api = readonly(redis, member_of('redis'))
local visible = {
  redis = api,
  server = api,
  KEYS = keys,
  ARGV = argv,
  string = strings,
  table = readonly(table_of_ours, member_of('table')),
  math = readonly(math_of_ours, member_of('math')),
  pcall = function(...)
    return caught(pcall(...))
  end,
  xpcall = function(body, ...)
    if select('#', ...) == 0 then
      error(format("user_script:%d: bad argument #2 to 'xpcall' (value expected)", last_line), 0)
    end
    local handler = ...
    -- A handler runs where the error was raised; inside the hook its lines would not be counted.
    return checked(xpcall(body, function(problem)
      if stopped then
        return problem
      end
      return handler(problem)
    end))
  end,
  assert = assert,
  error = error,
  getmetatable = getmetatable,
  ipairs = ipairs,
  next = next,
  pairs = pairs,
  rawequal = rawequal,
  rawget = rawget,
  rawset = function(target, ...)
    if closed[target] then
      error('Attempt to modify a readonly table', 0)
    end
    return rawset(target, ...)
  end,
  select = select,
  setmetatable = setmetatable,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
  unpack = unpack,
  _VERSION = _VERSION,
}

local chunk, problem = loadstring(source, USER)
if not chunk then
  return 'unreadable', {}, problem, tonumber(match(problem, '^user_script:(%d+):')) or 0
end
setfenv(chunk, readonly(visible, function(name)
  local why = withheld[name]
  if why then
    stop(why)
  end
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 3)
end))

-- --- running it ----------------------------------------------------------------------------------------------------

local lines = 0
local function hook(event, number)
  if event ~= 'line' then
    return returned()
  end
  local info = getinfo(2, 'S')
  if info.source ~= USER then
    return
  end
  if stopped then
    error(stopped, 0)
  end
  lines, last_line = lines + 1, number
  if lines > budget then
    stop(format('it ran %d lines without ending', budget))
  end
  local seen, i = {}, 1
  while true do
    local name, value = getlocal(2, i)
    if not name then
      break
    end
    if sub(name, 1, 1) ~= '(' then -- a loop's internal counters
      seen[#seen + 1] = name
      seen[#seen + 1] = shown(value, 1)
    end
    i = i + 1
  end
  if on_line(number, info.what == 'main', unpack(seen)) then
    stop(true) -- whoever said so knows why
  end
end

local failed_at = 0
local ok, value = xpcall(function()
  sethook(hook, 'lr')
  return (chunk())
end, function(raised)
  failed_at = last_line
  return raised
end)
sethook()
local function ended(kind, why)
  return kind, {}, why, failed_at
end
if stopped then
  return ended('stopped', stopped)
elseif not ok then
  if value == 'not enough memory' then
    return ended('stopped', 'it needed more memory than the stepper allows')
  end
  -- Word the error as a live server does.
  if type(value) ~= 'table' then
    -- A stack overflow may happen in this file's part of the stack.
    value = 'ERR ' .. gsub(tostring(value), '^machine:%d+: ', format('user_script:%d: ', failed_at))
  else
    value = rawget(value, 'err')
    value = type(value) == 'string' and value or 'ERR unknown error'
  end
  return ended('raised', value)
end
local good, tokens = pcall(spell, value, {}, 1)
if not good then
  return ended('stopped', tokens)
end
return 'returned', tokens, '', failed_at
