if is_of_another_type(KEYS[1], 'string') or is_of_another_type(KEYS[2], 'string')
  or is_of_another_type(KEYS[3], 'string') or is_of_another_type(KEYS[4], 'stream') then
  call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
end
if is_of_another_type(KEYS[5], 'hash') then
  call('UNLINK', KEYS[5])
end
if is_of_another_type(KEYS[6], 'string') then
  call('UNLINK', KEYS[6])
end
local epoch = text(KEYS[1], $EPOCH_BYTES)
local sequence = text(KEYS[2], $MAX_SEQUENCE_DIGITS)
local head = text(KEYS[3], $NONCE_BYTES)
if sequence == '' then
  sequence = '0'
end
local function state(first)
  local complete, lengths, content, left = 1, {}, {}, $MAX_STATUSES_BYTES
  local seen = {}
  local function add(field)
    if seen[field] or #seen >= $MAX_STATUSES then
      return
    end
    local size = call('HSTRLEN', KEYS[5], field)
    if #field > $MAX_INSTANCE_BYTES or size > $MAX_STATUS_BYTES then
      call('HDEL', KEYS[5], field)
    elseif size > left then
      complete = 0
    elseif size > 0 then
      seen[field], seen[#seen + 1], left = true, true, left - size
      lengths[#lengths + 1], content[#content + 1] = #field, field
      lengths[#lengths + 1], content[#content + 1] = size, call('HGET', KEYS[5], field)
    end
  end
  for index = first, #ARGV do
    add(ARGV[index])
  end
  if call('HLEN', KEYS[5]) > $MAX_STATUSES then
    complete = 0
  end
  for _, field in ipairs(call('HRANDFIELD', KEYS[5], $MAX_STATUSES)) do
    add(field)
  end
  return {epoch, sequence, head, call('TIME'), complete, table.concat(lengths, ' '),
    table.concat(content)}
end
