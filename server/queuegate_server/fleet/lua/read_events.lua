local entries, left, from = {}, tonumber(ARGV[5]), ARGV[2]
for _ = 1, tonumber(ARGV[4]) do
  local entry = call(ARGV[1], KEYS[1], from, ARGV[3], 'COUNT', 1)[1]
  if not entry then
    break
  end
  local size = 0
  for _, item in ipairs(entry[2]) do
    size = size + #item
  end
  if #entry[2] > $MAX_ENTRY_ITEMS or size > $MAX_ENTRY_BYTES then
    entries[#entries + 1] = {entry[1], {}}
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
