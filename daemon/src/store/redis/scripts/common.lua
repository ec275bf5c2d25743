-- What every script begins with. Numbers are compared as text: Lua's lose precision above 2^53.
local counter, identity, leases, steps, descriptions, replication =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- Another Redis, or one that was emptied, is not the one that this host leases from.
local found = redis.call('GET', identity)
if found ~= ARGV[1] then return {'identity', found or ''} end

-- A replica may take writes as well (replica-read-only no), which nobody else sees.
local server = redis.call('INFO', 'replication')
if string.match(server, 'role:(%w+)') ~= 'master' then return {'replica'} end
local current = string.match(server, 'master_replid:(%x+)')
if not current then return {'hidden'} end

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

local now = tonumber(redis.call('TIME')[1])

-- Whether the server has its replication ID for less than a day: what was written shortly before may be lost. So
-- it may if the record of the ID is missing.
local function is_recent()
    local id, since = string.match(redis.call('GET', replication) or '', '^(%w+) (%d+)$')
    if id ~= current then
        since = text(now)
        redis.call('SET', replication, current .. ' ' .. since)
    end
    return now - tonumber(since) < 86400
end

-- What is known of the counter's leases: how far they came, how many IDs they took in the present minute and in
-- the one before, when the present one began, and the replication ID at that time.
local function leased()
    local pattern = '^(%d+) (%d+) (%d+) (%d+) (%w+)$'
    return string.match(redis.call('HGET', leases, counter) or '', pattern)
end

local function record(ended, present, before, since, id)
    local parts = {ended, text(present), text(before), text(since), id}
    redis.call('HSET', leases, counter, table.concat(parts, ' '))
end

-- What to skip where leases may be lost: the margin times what a minute took. A server that loses its data twice
-- in a row finds the same number twice, so half a minute has 64 places that are a sixteenth of the margin apart.
local function skip(margin, minute)
    local time = redis.call('TIME')
    local place = math.floor((tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000) / 500) % 64
    return math.ceil(margin * minute * (1 + place / 16))
end
