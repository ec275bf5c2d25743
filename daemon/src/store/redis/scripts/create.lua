-- ARGV: identity, what is known of an earlier counter, the first value, the step, the description, the margin, and
-- what the first value skips already; 0 for nothing.
if redis.call('EXISTS', counter) == 1 then return {'exists'} end
if (redis.call('HGET', leases, counter) or '') ~= ARGV[2] then return {'changed'} end
local recent = is_recent()
local ended, present, before, _, id = leased()
local may_be_lost = (ended and id ~= current) or (not ended and recent)
if may_be_lost and ARGV[7] == '0' and tonumber(ARGV[6]) > 0 then
    local minute = math.max(tonumber(present or 0), tonumber(before or 0), tonumber(ARGV[4]))
    return {'recent', text(skip(tonumber(ARGV[6]), minute))}
end
redis.call('SET', counter, ARGV[3])
record(ARGV[3], 0, 0, 0, current)
redis.call('HSET', steps, counter, ARGV[4])
redis.call('HSET', descriptions, counter, ARGV[5])
return {'done'}
