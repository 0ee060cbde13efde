-- no-fence, in complete: a completion does not look at its token

-- move: fence
local active, row = KEYS[1], KEYS[2]
local id, token, base = ARGV[1], ARGV[2], ARGV[3]
local parent_id, result = ARGV[4], ARGV[5]
local attempts = redis.call('HGET', row, 'attempts')
if not attempts then
  return 0
end
-- MISTAKE: the token is not looked at, so whoever held this job once may settle it, however long ago.
