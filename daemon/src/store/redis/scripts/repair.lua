-- ARGV: identity, what the counter holds, how much to add.
local value, refused = counted()
if refused then return refused end
if value ~= ARGV[2] then return {'changed'} end
redis.call('INCRBY', counter, ARGV[3])
return {'done'}
