-- ARGV: identity, the least number to start from, the default step, the least size, the margin, whether only to
-- prove that a lease would succeed.
local value, refused = counted()
if refused then return refused end
local floor, ended, present, before, since, id = ARGV[2], leased()
if ended and less(floor, ended) then floor = ended end
if less(value, floor) then return {'below', value, floor} end
local step = redis.call('HGET', steps, counter) or ARGV[3]
if not string.match(step, '^[1-9]%d*$') or #step > 12 then return {'step', step} end
if ARGV[6] == '1' then
    redis.call('INCRBY', counter, 0)
    return {'proved'}
end
local recent = is_recent()
local wanted = math.max(tonumber(step), tonumber(ARGV[4]))
present, before, since = tonumber(present or 0), tonumber(before or 0), tonumber(since or 0)
local skipped = 0
if (ended and id ~= current) or (not ended and recent) then
    skipped = skip(tonumber(ARGV[5]), math.max(present, before, wanted))
end
local function overflows(answer)
    return type(answer) == 'table' and string.find(answer.err or '', 'overflow')
end
local added = redis.pcall('INCRBY', counter, text(skipped + wanted))
if overflows(added) then
    -- A counter near its end still gives its own step.
    wanted = tonumber(step)
    added = redis.pcall('INCRBY', counter, text(skipped + wanted))
    if overflows(added) then return {'end', value, step} end
end
if type(added) == 'table' then return added end
if now - since >= 120 or now < since then
    -- Nobody asked for minutes, or the clock was set.
    present, before, since = wanted, math.max(present, math.floor(before / 2)), now
elseif now - since >= 60 then
    present, before, since = wanted, present, now
else
    present = present + wanted
end
local after = redis.call('GET', counter)
record(after, present, before, since, current)
return {'leased', value, after, text(wanted), text(skipped), step, current}
