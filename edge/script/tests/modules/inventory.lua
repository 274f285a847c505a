-- Items in storage, with the checks that people write.
local nk = require("nakama")
local COLLECTION, KEY = "inventory", "bag"

local function read(user_id)
  local objects = nk.storage_read({ { collection = COLLECTION, key = KEY, user_id = user_id } })
  if #objects == 0 then return { items = {}, gold = 0 }, nil end
  local object = objects[1]
  return object.value, object.version
end

local function write(user_id, bag, version)
  return nk.storage_write({ {
    collection = COLLECTION, key = KEY, user_id = user_id, value = bag, version = version,
    permission_read = 1, permission_write = 0,
  } })
end

local function give(bag, item, amount)
  assert(type(item) == "string" and #item > 0, "item expected")
  amount = math.floor(tonumber(amount) or 1)
  bag.items[item] = (bag.items[item] or 0) + amount
  if bag.items[item] <= 0 then bag.items[item] = nil end
  return bag
end

nk.register_rpc(function(context, payload)
  local request = (payload and payload ~= "") and nk.json_decode(payload) or { give = { sword = 1, potion = "3" } }
  local bag = { items = {}, gold = 0 }
  for item, amount in pairs(request.give) do give(bag, item, amount) end
  local ok, problem = pcall(give, bag, 12)
  assert(not ok and tostring(problem):match("item expected$"))
  assert(bag.items.sword == 1 and bag.items.potion == 3)
  give(bag, "potion", -3)
  assert(bag.items.potion == nil and next(bag.items) == "sword")
  local handled = { read = read, write = write }
  return handled.read and handled.write and "ok" or "no"
end, "inventory")
