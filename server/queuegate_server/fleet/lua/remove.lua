for index = 1, #ARGV, 2 do
  local value = call('HGET', KEYS[1], ARGV[index])
  if value and redis.sha1hex(value) == ARGV[index + 1] then
    call('HDEL', KEYS[1], ARGV[index])
  end
end
return 1
