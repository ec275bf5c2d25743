-- ARGV: identity, what is known of an earlier counter, the first value, the step, the description, whether a margin
-- is in the value.
if redis.call('EXISTS', counter) == 1 then return {'exists'} end
local record = redis.call('HGET', leases, counter) or ''
if record ~= ARGV[2] then return {'changed'} end
local current, is_recent = replicated()
local _, _, id = leased()
if ARGV[6] ~= '1' and ((id and id ~= current) or (not id and is_recent)) then return {'recent'} end
redis.call('SET', counter, ARGV[3])
redis.call('HSET', leases, counter, ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. current)
redis.call('HSET', steps, counter, ARGV[4])
redis.call('HSET', descriptions, counter, ARGV[5])
return {'done'}
