-- newest-first, in claim: a claim takes the largest id

-- move: take
-- MISTAKE: from the wrong end. Old work waits for as long as new work comes.
local popped = redis.call('ZPOPMAX', pending)
if #popped == 0 then
  return {}
end
local id = popped[1]
local row = prefix .. id
