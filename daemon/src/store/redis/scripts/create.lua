-- ARGV: identity, what is known of an earlier counter, the first value, the step, the description, the margin, what
-- is skipped already.
if redis.call('EXISTS', counter) == 1 then return {'exists'} end
if (redis.call('HGET', leases, counter) or '') ~= ARGV[2] then return {'changed'} end
local current, is_recent = replicated()
local ended, present, before, _, id = leased()
if ARGV[7] == '0' and ((ended and id ~= current) or (not ended and is_recent)) then
    local minute = math.max(tonumber(present or 0), tonumber(before or 0), tonumber(ARGV[4]))
    return {'recent', text(skip(tonumber(ARGV[6]), minute))}
end
redis.call('SET', counter, ARGV[3])
record(ARGV[3], 0, 0, 0, current)
redis.call('HSET', steps, counter, ARGV[4])
redis.call('HSET', descriptions, counter, ARGV[5])
return {'done'}
