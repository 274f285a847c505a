-- A bank: the `bench_transfer` function moves one coin from an account to another one, as one
-- transaction, and answers when that is durable. Accounts are objects of the storage; one that is not
-- there yet has 1,000 coins. `bench_write` writes one new object, and no more; `bench_write_ordered` one whose key
-- comes after those before.
--
-- Nakama's storage has no transaction over a read and a write, but objects have versions: a write
-- says which one it has read, and if the object has changed since, nothing is written and the
-- transfer begins again.

local nk = require("nakama")

local COLLECTION, SYSTEM = "bank", "00000000-0000-0000-0000-000000000000"
local BALANCE_FIRST, TRIES_MAX = 1000, 100
local ABORTED = 10
-- Objects of one write.
local BATCH = 100

-- Which of `count` accounts, from 1: each as likely as any other, or, with a skew of more than 1, by
-- Zipf's law (inverse of the continuous distribution, which is close to it).
local function draw(count, skew)
  local u = math.random()
  if skew <= 1 then
    return math.floor(u * count) + 1
  end
  local power = 1 - skew
  local number = math.floor((1 + u * ((count + 1) ^ power - 1)) ^ (1 / power))
  return math.min(math.max(number, 1), count)
end

local function key(number)
  return string.format("account-%07d", number)
end

-- What it has, and the version of its object.
local function balance_of(objects, name)
  for _, object in ipairs(objects) do
    if object.key == name then
      return object.value.coins, object.version
    end
  end
  return BALANCE_FIRST, "*"
end

local function try(from, to)
  local objects = nk.storage_read({
    { collection = COLLECTION, key = from, user_id = SYSTEM },
    { collection = COLLECTION, key = to, user_id = SYSTEM },
  })
  local from_coins, from_version = balance_of(objects, from)
  local to_coins, to_version = balance_of(objects, to)
  if from_coins < 1 then
    return true, false
  end
  local is_written = pcall(nk.storage_write, {
    {
      collection = COLLECTION, key = from, user_id = SYSTEM, version = from_version,
      value = { coins = from_coins - 1 }, permission_read = 0, permission_write = 0,
    },
    {
      collection = COLLECTION, key = to, user_id = SYSTEM, version = to_version,
      value = { coins = to_coins + 1 }, permission_read = 0, permission_write = 0,
    },
  })
  return is_written, true
end

local function transfer(context, payload)
  local wish = nk.json_decode(payload)
  local count, skew = wish.accounts or 100000, wish.skew or 0
  local from, to = draw(count, skew), draw(count, skew)
  if from == to then
    to = to % count + 1
  end
  for _ = 1, TRIES_MAX do
    local is_done, is_moved = try(key(from), key(to))
    if is_done then
      return nk.json_encode({ transferred = is_moved })
    end
  end
  error({ "the accounts changed too often", ABORTED })
end

-- Makes one of `parts` parts of the accounts, unless it is there: part 0 has the first ones.
local function fill(context, payload)
  local wish = nk.json_decode(payload)
  local size = math.ceil(wish.accounts / wish.parts)
  local first = wish.part % wish.parts * size + 1
  -- The parts are equal, but for the last ones where the accounts do not come out even.
  local last = math.min(first + size - 1, wish.accounts)
  local there = nk.storage_read({ { collection = COLLECTION, key = key(first), user_id = SYSTEM } })
  if #there > 0 then
    return nk.json_encode({ made = 0 })
  end
  for start = first, last, BATCH do
    local objects = {}
    for number = start, math.min(start + BATCH - 1, last) do
      objects[#objects + 1] = {
        collection = COLLECTION, key = key(number), user_id = SYSTEM,
        value = { coins = BALANCE_FIRST }, permission_read = 0, permission_write = 0,
      }
    end
    nk.storage_write(objects)
  end
  return nk.json_encode({ made = math.max(last - first + 1, 0) })
end

-- How many accounts there are and what all of them have: nothing is made or lost by transfers.
local function total(context, payload)
  local accounts, coins, cursor = 0, 0, nil
  repeat
    local objects
    objects, cursor = nk.storage_list(SYSTEM, COLLECTION, 100, cursor)
    for _, object in ipairs(objects) do
      accounts, coins = accounts + 1, coins + object.value.coins
    end
  until not cursor or cursor == ""
  return nk.json_encode({ accounts = accounts, coins = coins })
end

local function write_object(key, payload)
  nk.storage_write({
    {
      collection = "bench", key = key, user_id = SYSTEM,
      value = { payload = payload }, permission_read = 0, permission_write = 0,
    },
  })
  return payload
end

local function write(context, payload)
  return write_object(nk.uuid_v4(), payload)
end

-- Keys that begin with the time come in order, so that an object goes where the last one went.
local function write_ordered(context, payload)
  return write_object(nk.time() .. "-" .. nk.uuid_v4(), payload)
end

nk.register_rpc(transfer, "bench_transfer")
nk.register_rpc(fill, "bench_transfer_fill")
nk.register_rpc(total, "bench_transfer_total")
nk.register_rpc(write, "bench_write")
nk.register_rpc(write_ordered, "bench_write_ordered")
