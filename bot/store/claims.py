"""The atomic steps on runs: claiming a pull request, beginning an attempt, recording, ending.

Each script compares and writes in one step, so that no two processes can both win. Scripts name the keys of other runs
from a prefix, which a single server allows and a cluster does not.
"""

from __future__ import annotations

from bot.store.connection import Script

SLOTS = "{'running', 'waiting', 'beside1', 'beside2'}"

CLAIM = Script.of("""
-- KEYS: claim, source, text, run, live. ARGV: run id, request, editing, keep ms, repeat ms, prefix of runs.
local keep = ARGV[4]
local function answer(word, id, other)
  local text = word .. ' ' .. id .. ' ' .. (other or '')
  redis.call('set', KEYS[2], text, 'px', keep)
  return text
end
local function live(id)
  local run = ARGV[6] .. id
  return redis.call('hexists', run, 'request') == 1 and redis.call('hexists', run, 'status') == 0
end
local function holder(slot)
  local id = redis.call('hget', KEYS[1], slot)
  if id and not live(id) then
    redis.call('hdel', KEYS[1], slot)
    return false
  end
  return id
end
local function take(slot)
  redis.call('hset', KEYS[1], slot, ARGV[1])
  redis.call('pexpire', KEYS[1], keep)
  redis.call('hset', KEYS[4], 'request', ARGV[2], 'claim', KEYS[1])
  if slot == 'waiting' then redis.call('hset', KEYS[4], 'waited', 1) end
  redis.call('pexpire', KEYS[4], keep)
  redis.call('sadd', KEYS[5], ARGV[1])
  redis.call('set', KEYS[3], ARGV[1], 'px', ARGV[5])
end

local before = redis.call('get', KEYS[2])
if before then return before end
local twin = redis.call('get', KEYS[3])
if twin and redis.call('hexists', ARGV[6] .. twin, 'request') == 1 then return answer('repeat', twin) end
if ARGV[3] == '1' then
  local running = holder('running')
  if not running then take('running') return answer('started', ARGV[1]) end
  if not holder('waiting') then take('waiting') return answer('waiting', ARGV[1], running) end
  return answer('full', running)
end
for _, slot in ipairs({'beside1', 'beside2'}) do
  if not holder(slot) then take(slot) return answer('started', ARGV[1]) end
end
return answer('full', holder('beside1'))
""")
"""Answers ``word run other``; the first answer to a source is its answer for as long as records are kept."""

BEGIN = Script.of("""
-- KEYS: run, and whatever else is kept with it. ARGV: keep ms.
if redis.call('hexists', KEYS[1], 'request') == 0 then return 0 end
if redis.call('hexists', KEYS[1], 'status') == 0 then
  for _, each in ipairs(KEYS) do redis.call('pexpire', each, ARGV[1]) end
end
return redis.call('hincrby', KEYS[1], 'fence', 1)
""")
"""Answers the new fence, or 0 where there is no such run. What has ended is kept no longer for being told late."""

FENCED = """
if (redis.call('hget', KEYS[1], 'fence') or '0') ~= ARGV[1] then return 'lost' end
"""
"""Opens every script that writes for an attempt: KEYS[1] is the run, ARGV[1] the attempt's fence."""

RECORD = Script.of(
    FENCED
    + """
-- ARGV: fence, keep ms, then fields and values; an empty value takes the field away.
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('hdel', KEYS[1], ARGV[i])
  else
    redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
redis.call('pexpire', KEYS[1], ARGV[2])
return 'ok'
"""
)

KEEP = Script.of(
    FENCED
    + """
-- KEYS: run, key. ARGV: fence, keep ms, value. Stores the value if there is none; answers the stored one behind 'ok'.
redis.call('set', KEYS[2], ARGV[3], 'nx', 'px', ARGV[2])
return {'ok', redis.call('get', KEYS[2])}
"""
)

FINISH = Script.of(
    FENCED
    + f"""
-- KEYS: run, live. ARGV: fence, keep ms, run id, status, prefix of runs. Answers 'ok' and the promoted run's id, or
-- 'ok '.
redis.call('srem', KEYS[2], ARGV[3])
if redis.call('hexists', KEYS[1], 'status') == 1 then
  return 'ok ' .. (redis.call('hget', KEYS[1], 'promoted') or '')
end
redis.call('hset', KEYS[1], 'status', ARGV[4])
redis.call('pexpire', KEYS[1], ARGV[2])
local claim = redis.call('hget', KEYS[1], 'claim')
if not claim then return 'ok ' end
for _, slot in ipairs({SLOTS}) do
  if redis.call('hget', claim, slot) == ARGV[3] then redis.call('hdel', claim, slot) end
end
local waiting = redis.call('hget', claim, 'waiting')
if not waiting or redis.call('hexists', claim, 'running') == 1 then return 'ok ' end
redis.call('hdel', claim, 'waiting')
local other = ARGV[5] .. waiting
if redis.call('hexists', other, 'request') == 0 or redis.call('hexists', other, 'status') == 1 then return 'ok ' end
redis.call('hset', claim, 'running', waiting)
redis.call('pexpire', claim, ARGV[2])
redis.call('hset', KEYS[1], 'promoted', waiting)
return 'ok ' .. waiting
"""
)

STARTABLE = Script.of("""
-- KEYS: live. ARGV: prefix of runs. Answers the ids of live runs that do not wait for another: a worker should have
-- them, or be about to. Forgets those that are not live any more.
local function live(id)
  local run = ARGV[1] .. id
  return redis.call('hexists', run, 'request') == 1 and redis.call('hexists', run, 'status') == 0
end
local found = {}
for _, id in ipairs(redis.call('smembers', KEYS[1])) do
  if not live(id) then
    redis.call('srem', KEYS[1], id)
  else
    local claim = redis.call('hget', ARGV[1] .. id, 'claim')
    if redis.call('hget', claim, 'waiting') ~= id then table.insert(found, id) end
  end
end
return found
""")

CANCEL = Script.of("""
-- KEYS: run. ARGV: reason. The first reason stands; a run that has ended, or is unknown, is left alone.
if redis.call('hexists', KEYS[1], 'request') == 0 or redis.call('hexists', KEYS[1], 'status') == 1 then return 0 end
return redis.call('hsetnx', KEYS[1], 'cancel', ARGV[1])
""")

NEWS = Script.of("""
-- KEYS: claim. ARGV: prefix of runs. Answers how many runs that have not ended were told.
local told = 0
for _, id in ipairs(redis.call('hvals', KEYS[1])) do
  local run = ARGV[1] .. id
  if redis.call('hexists', run, 'request') == 1 and redis.call('hexists', run, 'status') == 0 then
    redis.call('hincrby', run, 'news', 1)
    told = told + 1
  end
end
return told
""")

SEEN = Script.of("""
-- KEYS: name. ARGV: who sees it, seconds to remember (0: for ever), seconds in which the first may come again.
-- Answers 1 where it was seen before.
local now = tonumber(redis.call('time')[1])
local first = redis.call('get', KEYS[1])
if first then
  local by, at = string.match(first, '^(.*) (%d+)$')
  if by == ARGV[1] and now - tonumber(at) <= tonumber(ARGV[3]) then return 0 end
  return 1
end
local value = ARGV[1] .. ' ' .. now
if ARGV[2] == '0' then redis.call('set', KEYS[1], value)
else redis.call('set', KEYS[1], value, 'ex', ARGV[2]) end
return 0
""")
