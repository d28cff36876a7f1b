for index = 1, 2 do
  if is_of_another_type(KEYS[index], 'string') then
    call('UNLINK', KEYS[index])
  end
end
local holder, left = text(KEYS[1], $MAX_INSTANCE_BYTES), call('PTTL', KEYS[1])
if holder ~= '' and holder ~= ARGV[1] and left >= 0 and left <= tonumber(ARGV[3]) then
  return false
end
if ARGV[2] ~= '' then
  call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4])
end
if ARGV[6] == '1' then
  call('DEL', KEYS[1])
else
  call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
end
return text(KEYS[2], tonumber(ARGV[5]))
