call('HSET', KEYS[5], ARGV[1], ARGV[2])
return state(3)
