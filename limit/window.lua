-- One exact sliding window: a list of the times, in microseconds and oldest
-- first, at which requests were let through that still count.
--
-- KEYS  where the asker is counted: on its own; and for when too many keys are
--       remembered, with its neighbours, and with more of them
-- ARGV  how many requests it has, the window in microseconds, how many of them
--       to take, all or none, how many keys there may be, and the time: 0 is this
--       server's
--
-- Answers how many were left, and if too few, how many microseconds to wait: the
-- window where it never has as many.
local n, window, room = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local take, now = tonumber(ARGV[3]), tonumber(ARGV[5])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

-- Whoever was counted somewhere is counted there for as long as anything of it
-- counts, so that moving never gives a second budget.
local key, len = KEYS[1], redis.call('LLEN', KEYS[1])
for i = 2, #KEYS do
  if len == 0 then
    len = redis.call('LLEN', KEYS[i])
    if len > 0 then key = KEYS[i] end
  end
end
if len == 0 and #KEYS > 1 then
  local size = redis.call('DBSIZE')
  if size >= room + room / 4 then
    key = KEYS[#KEYS]
  elseif size >= room then
    key = KEYS[2]
  end
end

local function at(i) return tonumber(redis.call('LINDEX', key, i)) end

if len > 0 then
  local newest = at(-1)
  if newest > now then now = newest end -- time never goes back
  local over = now - window -- what was let through then or before counts no more
  if newest <= over then
    redis.call('DEL', key)
    len = 0
  elseif at(0) <= over then
    local low, high = 0, 1 -- at(low) is over, at(high) will not be
    while high < len - 1 and at(high) <= over do low, high = high, high * 2 end
    if high > len - 1 then high = len - 1 end
    while high - low > 1 do
      local middle = math.floor((low + high) / 2)
      if at(middle) <= over then low = middle else high = middle end
    end
    redis.call('LTRIM', key, high, -1)
    len = len - high
  end
end

local need = math.max(take, 1)
if len + need > n then
  local left = math.max(n - len, 0)
  if need > n then
    return {left, window}
  end
  return {left, at(len + need - 1 - n) + window - now}
end
if take > 0 then
  for _ = 1, take do
    redis.call('RPUSH', key, string.format('%.0f', now))
  end
  redis.call('PEXPIREAT', key, string.format('%.0f', math.floor((now + window) / 1000) + 1))
end
return {n - len, 0}
