-- ARGV: identity, what the counter holds, what is known of its leases, how far they came at most. What may have been
-- lost before stays unknown: the record keeps its replication ID.
local kind = redis.call('TYPE', counter).ok
if kind == 'none' then return {'missing'} end
if kind ~= 'string' then return {'type', kind} end
local known = redis.call('HGET', leases, counter) or ''
if redis.call('GET', counter) ~= ARGV[2] or known ~= ARGV[3] then return {'changed'} end
local recent = is_recent()
local ended, present, before, since, id = leased()
if not ended then
    present, before, since, id = 0, 0, 0, recent and 'unknown' or current
end
redis.call('DEL', counter)
record(ARGV[4], tonumber(present), tonumber(before), tonumber(since), id)
redis.call('HDEL', steps, counter)
redis.call('HDEL', descriptions, counter)
return {'done'}
