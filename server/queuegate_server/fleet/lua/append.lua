local appended = 0
local turn, left = text(KEYS[6], $NONCE_BYTES), call('PTTL', KEYS[6])
local is_free = turn == '' or turn == ARGV[5] or left < 0 or left > tonumber(ARGV[9])
if is_free and epoch == ARGV[1] and sequence == ARGV[2] and head == ARGV[3] then
  local added = redis.pcall('XADD', KEYS[4], 'MAXLEN', '~', ARGV[8], ARGV[4] .. '-0',
    'id', ARGV[5], 'previous', head, 'event', ARGV[6], 'mac', ARGV[7])
  call('DEL', KEYS[6])
  if type(added) ~= 'table' or not added.err then
    call('SET', KEYS[2], ARGV[4])
    call('SET', KEYS[3], ARGV[5])
    appended, sequence, head = 1, ARGV[4], ARGV[5]
  elseif string.find(added.err, 'equal or smaller', 1, true) then
    call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
    call('SET', KEYS[1], ARGV[10])
    epoch, sequence, head = ARGV[10], '0', ''
  else
    error('command of a script XADD: ' .. added.err, 0)
  end
elseif is_free and epoch == ARGV[1] then
  call('SET', KEYS[6], ARGV[5], 'PX', ARGV[9])
end
local reply = state(11)
reply[#reply + 1] = appended
return reply
