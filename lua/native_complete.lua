-- native_complete: a model of the native command EMQ.COMPLETE, not the command itself: the flat completion, and no flow
-- keys     active row
-- keys sq  active row dependencies processed parent
-- keys xq  active row outbox
-- argv     id token base
-- argv sq  (argument)*
-- argv xq  (argument)*
-- derives  base..pending  base..metrics:completed
-- replies  1 done · 0 gone · EMQSTALE complete token mismatch · EMQSTATE complete flow not native
-- replies  EMQSHAPE complete takes 2 keys and id, token, base

-- The command line is EMQ.COMPLETE 2 active row id token base. For the model, numkeys is the number of KEYS. Layouts
-- sq and xq are declared because they arrive and are refused, not because they run; nothing behind their keys is read.

-- move: layout
local active, row = KEYS[1], KEYS[2]
local id, token, base = ARGV[1], ARGV[2], ARGV[3]
-- A flow layout is told by numkeys alone, before the shape of the rest and before the row is read.
if #KEYS == 3 or #KEYS == 5 then
  return redis.error_reply('EMQSTATE complete flow not native')
end

-- move: shape
if #KEYS ~= 2 or #ARGV ~= 3 then
  return redis.error_reply('EMQSHAPE complete takes 2 keys and id, token, base')
end

-- move: fence
local attempts = redis.call('HGET', row, 'attempts')
if not attempts then
  return 0
end
if attempts ~= token then
  return redis.error_reply('EMQSTALE complete token mismatch')
end

-- move: no flow
-- The flat form could retire a child and leave its parent waiting for ever, so it refuses. Nothing is written yet.
if redis.call('HEXISTS', row, 'parent') == 1 then
  return redis.error_reply('EMQSTATE complete flow not native')
end

-- move: retire
if redis.call('ZREM', active, id) == 0 then
  redis.call('ZREM', base .. 'pending', id)
end
redis.call('DEL', row)
redis.call('HINCRBY', base .. 'metrics:completed', 'count', 1)
return 1
