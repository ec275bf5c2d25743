-- ARGV: identity, the step.
if redis.call('EXISTS', counter) == 0 then return {'missing'} end
redis.call('HSET', steps, counter, ARGV[2])
return {'done'}
