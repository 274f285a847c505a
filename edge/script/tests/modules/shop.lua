-- The old way to make a module.
local nk = require("nakama")
local G = _G
module("shop", package.seeall)
prices = { apple = 2, pear = 3 }
function price(name, amount) return (prices[name] or 0) * (amount or 1) end
local function hidden() return price("pear", 2) end
G.assert(_NAME == "shop" and _M.price == price)
nk.register_rpc(function()
  assert(hidden() == 6 and price("apple", 10) == 20)
  return "ok"
end, "shop")
