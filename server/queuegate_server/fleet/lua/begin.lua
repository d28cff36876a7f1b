if epoch == ARGV[1] then
  call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
  call('SET', KEYS[1], ARGV[2])
end
return 1
