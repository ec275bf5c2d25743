-- ARGV: identity, the least number to start from, the default step, the least size, the margin, whether only to
-- prove that a lease would succeed.
local value, refused = counted()
if refused then return refused end
local floor, ended, size, id = ARGV[2], leased()
if ended and less(floor, ended) then floor = ended end
if less(value, floor) then return {'below', value, floor} end
local step = redis.call('HGET', steps, counter) or ARGV[3]
if not string.match(step, '^[1-9]%d*$') or #step > 12 then return {'step', step} end
if ARGV[6] == '1' then
    redis.call('INCRBY', counter, 0)
    return {'proved'}
end
local current, is_recent = replicated()
local wanted = math.max(tonumber(step), tonumber(ARGV[4]))
local skipped = 0
if (ended and id ~= current) or (not ended and is_recent) then
    skipped = tonumber(ARGV[5]) * math.max(tonumber(size or '0'), wanted)
end
local added = redis.pcall('INCRBY', counter, text(skipped + wanted))
if type(added) == 'table' and string.find(added.err or '', 'overflow') then
    -- A counter near its end still gives its own step.
    wanted = tonumber(step)
    added = redis.pcall('INCRBY', counter, text(skipped + wanted))
    if type(added) == 'table' and string.find(added.err or '', 'overflow') then
        return {'end', value, step}
    end
end
if type(added) == 'table' then return added end
local after = redis.call('GET', counter)
local largest = wanted
if id == current then largest = math.max(tonumber(size), wanted) end
redis.call('HSET', leases, counter, after .. ' ' .. text(largest) .. ' ' .. current)
return {'leased', value, after, text(wanted), text(skipped), step, current}
