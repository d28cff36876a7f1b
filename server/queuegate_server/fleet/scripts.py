"""Lua scripts that run in Redis.

Anyone who can write to Redis can store anything under the fleet's keys. Scripts therefore bound the
number and size of returned values, and delete keys of the wrong type. An oversized value is
truncated to one byte more than the limit, so the caller can reject it. Scripts that use the fleet's
state take `Keys.state` as their keys.
"""

from typing import Final

from queuegate_server.fleet.connection import Script
from queuegate_server.fleet.events import MAX_STATUS_BYTES
from queuegate_server.fleet.keys import EPOCH_BYTES, NONCE_BYTES

MAX_SEQUENCE_DIGITS: Final = 18
"""The maximum number of digits in an event's number. The number must fit into 64 bits."""
MAX_STATUSES: Final = 2_000
"""The maximum number of statuses in a reply."""
MAX_STATUSES_BYTES: Final = 2 * 1024 * 1024
MAX_ENTRY_BYTES: Final = 128 * 1024
"""The maximum size of an entry. Names take up to 16 KiB, and several times as much in JSON."""
MAX_ENTRY_ITEMS: Final = 16
"""The maximum number of field names and values in a stream entry."""
_MAX_INSTANCE_BYTES: Final = 64

_CALLS: Final = """
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
"""

_STATE: Final = (
    _CALLS
    + f"""
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
local epoch = text(KEYS[1], {EPOCH_BYTES})
local sequence = text(KEYS[2], {MAX_SEQUENCE_DIGITS})
local head = text(KEYS[3], {NONCE_BYTES})
if sequence == '' then
  sequence = '0'
end
local function state(first)
  local complete, lengths, content, left = 1, {{}}, {{}}, {MAX_STATUSES_BYTES}
  local seen = {{}}
  local function add(field)
    if seen[field] or #seen >= {MAX_STATUSES} then
      return
    end
    local size = call('HSTRLEN', KEYS[5], field)
    if #field > {_MAX_INSTANCE_BYTES} or size > {MAX_STATUS_BYTES} then
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
  if call('HLEN', KEYS[5]) > {MAX_STATUSES} then
    complete = 0
  end
  for _, field in ipairs(call('HRANDFIELD', KEYS[5], {MAX_STATUSES})) do
    add(field)
  end
  return {{epoch, sequence, head, call('TIME'), complete, table.concat(lengths, ' '),
    table.concat(content)}}
end
"""
)

HEARTBEAT: Final = Script(
    _STATE
    + """
call('HSET', KEYS[5], ARGV[1], ARGV[2])
return state(3)
"""
)
"""Write a replica's status, and return the fleet's state. Arguments: the field, the value, and the
fields of statuses to return first."""

APPEND: Final = Script(
    _STATE
    + f"""
local appended = 0
local turn, left = text(KEYS[6], {NONCE_BYTES}), call('PTTL', KEYS[6])
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
"""
)

BEGIN: Final = Script(
    _STATE
    + """
if epoch == ARGV[1] then
  call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
  call('SET', KEYS[1], ARGV[2])
end
return 1
"""
)
"""Start a new history. Arguments: the epoch to replace, and the new epoch."""

REMOVE: Final = Script(
    _CALLS
    + """
for index = 1, #ARGV, 2 do
  local value = call('HGET', KEYS[1], ARGV[index])
  if value and redis.sha1hex(value) == ARGV[index + 1] then
    call('HDEL', KEYS[1], ARGV[index])
  end
end
return 1
"""
)
"""Remove statuses that have not been rewritten. Arguments: each status's field and SHA-1."""

READ_EVENTS: Final = Script(
    _CALLS
    + f"""
local entries, left, from = {{}}, tonumber(ARGV[5]), ARGV[2]
for _ = 1, tonumber(ARGV[4]) do
  local entry = call(ARGV[1], KEYS[1], from, ARGV[3], 'COUNT', 1)[1]
  if not entry then
    break
  end
  local size = 0
  for _, item in ipairs(entry[2]) do
    size = size + #item
  end
  if #entry[2] > {MAX_ENTRY_ITEMS} or size > {MAX_ENTRY_BYTES} then
    entries[#entries + 1] = {{entry[1], {{}}}}
    break
  end
  left = left - size
  if left < 0 and #entries > 0 then
    break
  end
  entries[#entries + 1] = entry
  from = '(' .. entry[1]
end
return entries
"""
)
"""Read entries one by one. Arguments: XRANGE or XREVRANGE, the first and last id, and the maximum
numbers of entries and bytes. An entry too large to have been written by a replica is returned last,
without fields."""

READ_VALUES: Final = Script(
    _CALLS
    + """
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
"""
)
"""Read values, then create locks. Arguments: the number of keys to read, the maximum bytes per
value and in total, and the TTL of each lock in milliseconds. A value that is oversized or of the
wrong type is returned as empty; a value beyond the total is returned as missing."""

HOLD_SOURCE: Final = Script(
    _CALLS
    + f"""
for index = 1, 2 do
  if is_of_another_type(KEYS[index], 'string') then
    call('UNLINK', KEYS[index])
  end
end
local holder, left = text(KEYS[1], {_MAX_INSTANCE_BYTES}), call('PTTL', KEYS[1])
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
"""
)
"""Take, renew or release the lease on a source, unless another replica holds it; then return nil.
Otherwise, store the given position, if any, and return the stored one. Arguments: the replica, the
position, the TTLs of the lease and the position in milliseconds, the maximum size of a position,
and 1 to release the lease."""

_PROBES: Final = {
    "DEL": "",
    "UNLINK": "",
    "PTTL": "",
    "GET": "",
    "STRLEN": "",
    "SET": ", '', 'XX', 'PX', 1",
    "HDEL": ", 'field'",
    "XADD": ", 'NOMKSTREAM', 'MAXLEN', 0, '*', 'field', ''",
    "XREVRANGE": ", '+', '-', 'COUNT', 1",
}
"""Commands used by the scripts above but not by every heartbeat. Their arguments make them no-ops
on a missing key. DEL comes first, in case the key exists."""
PROBED_COMMANDS: Final = (*_PROBES,)

PROBE: Final = Script(
    """
local errors = {}
local function try(...)
  local reply = redis.pcall(...)
  errors[#errors + 1] = type(reply) == 'table' and reply.err or ''
end
"""
    + "".join(f"try('{command}', KEYS[1]{more})\n" for command, more in _PROBES.items())
    + "return errors\n"
)
"""Try each of PROBED_COMMANDS on a missing key; return their errors, empty for permitted
commands."""
