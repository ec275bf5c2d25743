-- Gives a Redis that has no identity one. KEYS: identity, replication. ARGV: the identity. What is written here at the
-- same time says that nothing of leafd's is lost so far.
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then
    local server = redis.call('INFO', 'replication')
    local id = string.match(server, 'master_replid:(%x+)')
    if id then redis.call('SET', KEYS[2], id .. ' 0') end
end
return redis.call('GET', KEYS[1])
