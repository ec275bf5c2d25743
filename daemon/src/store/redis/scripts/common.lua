-- What every script begins with. Numbers are compared as text: Lua's lose precision above 2^53.
local counter, identity, leases, steps, descriptions, replication =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- Another Redis, or one that was emptied, is not the one that this host leases from.
local found = redis.call('GET', identity)
if found ~= ARGV[1] then return {'identity', found or ''} end

-- A replica may take writes as well (replica-read-only no), which nobody else sees.
local server = redis.call('INFO', 'replication')
if string.match(server, 'role:(%w+)') ~= 'master' then return {'replica'} end

local function less(a, b)
    if #a ~= #b then return #a < #b end
    return a < b
end

local function text(number)
    return string.format('%.0f', number)
end

-- The number in the counter; or nothing, and why there is none.
local function counted()
    local kind = redis.call('TYPE', counter).ok
    if kind == 'none' then return nil, {'missing'} end
    if kind ~= 'string' then return nil, {'type', kind} end
    local left = redis.call('PTTL', counter)
    if left ~= -1 then return nil, {'expires', text(left)} end
    local value = redis.call('GET', counter)
    local is_number = value == '0' or string.match(value, '^[1-9]%d*$')
    if not is_number or less('9223372036854775807', value) then return nil, {'value', value} end
    return value
end

-- The server's replication ID, and whether it is less than a day old: then what was written shortly before
-- may be lost. A server that leafd has not used before has lost nothing of leafd's.
local function replicated()
    local id = string.match(server, 'master_replid:(%w+)') or 'none'
    local now = tonumber(redis.call('TIME')[1])
    local known = redis.call('GET', replication)
    local known_id, since = string.match(known or '', '^(%w+) (%d+)$')
    if known_id ~= id then
        since = known and text(now) or '0'
        redis.call('SET', replication, id .. ' ' .. since)
    end
    return id, now - tonumber(since) < 86400
end

-- How far the leases came, the largest recent one, and the replication ID at that time.
local function leased()
    return string.match(redis.call('HGET', leases, counter) or '', '^(%d+) (%d+) (%w+)$')
end
