local replies, most, left = {}, tonumber(ARGV[2]), tonumber(ARGV[3])
for index = 1, tonumber(ARGV[1]) do
  local key = KEYS[index]
  local size = is_of_another_type(key, 'string') and most + 1 or call('STRLEN', key)
  replies[index] = false
  if size > most then
    replies[index] = ''
  elseif size <= left then
    replies[index] = call('GET', key)
    left = left - size
  end
end
for index = ARGV[1] + 1, #KEYS do
  local key, milliseconds = KEYS[index], ARGV[index - ARGV[1] + 3]
  local created = call('SET', key, '', 'NX', 'PX', milliseconds)
  if not created then
    local ends = call('PTTL', key)
    if ends < 0 or ends > tonumber(milliseconds) then
      created = call('SET', key, '', 'PX', milliseconds)
    end
  end
  replies[index] = created and '1' or false
end
return replies
