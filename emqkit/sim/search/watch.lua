-- What a script that is not the kit's own finds in place of some names while a world is explored: they note in a key
-- what it asks for that cannot be seen, or is not the same twice, and give it the time that is tried. It all stands on
-- the script's first line, so that the lines after it keep their numbers. A `<name>` is filled in.
local redis, server, math, os, _G, loadstring, load, collectgarbage, gcinfo = (function()
  local real, noted = redis, {}
  local function note(kind, what)
    if not noted[what] then
      noted[what] = true
      real.call('RPUSH', '<noted>', kind .. ' ' .. what)
    end
  end
  local function noting(kind, what, found)
    return function(...) note(kind, what) return found(...) end
  end
  local function over(table, own)
    return setmetatable(own, {__index = table, __newindex = table})
  end
  local kinds = {<kinds>}
  local unordered = {HGETALL = 2, HKEYS = 1, HVALS = 1, SMEMBERS = 1, SINTER = 1, SUNION = 1, SDIFF = 1}
  local function turned(width, reply)
    if type(reply) ~= 'table' or #reply == 0 then
      return reply
    end
    local out = {}
    for last = #reply, 1, -width do
      for place = last - width + 1, last do
        out[#out + 1] = reply[place]
      end
    end
    return out
  end
  local function watched(call)
    return function(verb, ...)
      local name = type(verb) == 'string' and string.upper(verb) or ''
      if name == 'TIME' and select('#', ...) == 0 then
        note('clock', name)
        return {'<seconds>', '<microseconds>'}
      end
      if kinds[name] then
        note(kinds[name], name)
      end
      local option = select('#', ...) > 2 and string.upper(tostring((select(3, ...)))) or ''
      if name:find('EXPIRE', 1, true) and (option == 'GT' or option == 'LT') then
        note('life', name .. ' ' .. option)
      end
      if <backwards> and unordered[name] then
        return turned(unordered[name], call(verb, ...))
      end
      return call(verb, ...)
    end
  end
  local redis = over(real, {
    call = watched(real.call),
    pcall = watched(real.pcall),
    setresp = noting('unseen', 'redis.setresp', real.setresp),
    acl_check_cmd = noting('unseen', 'redis.acl_check_cmd', real.acl_check_cmd),
  })
  local math = over(math, {
    random = noting('chance', 'math.random', math.random),
    randomseed = noting('chance', 'math.randomseed', math.randomseed),
  })
  local os = over(os, {clock = noting('chance', 'os.clock', os.clock)})
  local own = {
    redis = redis,
    server = redis,
    math = math,
    os = os,
    loadstring = noting('built', 'loadstring', loadstring),
    load = noting('built', 'load', load),
    collectgarbage = noting('chance', 'collectgarbage', collectgarbage),
    gcinfo = noting('chance', 'gcinfo', gcinfo),
  }
  own._G = own
  over(_G, own)
  return redis, redis, math, os, own, own.loadstring, own.load, own.collectgarbage, own.gcinfo
end)()
