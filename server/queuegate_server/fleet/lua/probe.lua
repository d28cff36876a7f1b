local errors = {}
local function try(...)
  local reply = redis.pcall(...)
  errors[#errors + 1] = type(reply) == 'table' and reply.err or ''
end
try('DEL', KEYS[1])
try('UNLINK', KEYS[1])
try('PTTL', KEYS[1])
try('GET', KEYS[1])
try('STRLEN', KEYS[1])
try('SET', KEYS[1], '', 'XX', 'PX', 1)
try('HDEL', KEYS[1], 'field')
try('XADD', KEYS[1], 'NOMKSTREAM', 'MAXLEN', 0, '*', 'field', '')
try('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return errors
