local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    error('command of a script ' .. select(1, ...) .. ': ' .. reply.err, 0)
  end
  return reply
end
local function is_of_another_type(key, kind)
  local actual = call('TYPE', key).ok
  return actual ~= kind and actual ~= 'none'
end
local function text(key, most)
  return call('GETRANGE', key, 0, most)
end
